"""TfJob of mlkube.io/v1beta1, the first operator for TensorFlow on Kubernetes (2017). Pure."""
