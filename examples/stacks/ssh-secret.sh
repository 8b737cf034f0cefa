#!/bin/sh
# Print a Secret with a new ssh key pair, by which the Pods of an MPI job let one another in:
#
#   sh ssh-secret.sh mpi-ssh | kubectl create -f -
#   sh ssh-secret.sh mpi-ssh | framework run --local mpi-openmpi.yaml -
#
# `kubectl apply` would also store the private key in an annotation of the Secret.
set -eu
name=${1:?usage: sh ssh-secret.sh NAME}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
ssh-keygen -q -t ed25519 -N "" -C "$name" -f "$directory/key"
cat <<END
apiVersion: v1
kind: Secret
metadata:
  name: $name
data:
  id_ed25519: $(base64 <"$directory/key" | tr -d '\n')
  id_ed25519.pub: $(base64 <"$directory/key.pub" | tr -d '\n')
END
