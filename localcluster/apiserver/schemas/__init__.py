"""The schema language of CRDs: is a schema sound, is a value valid, CEL rules, defaults. Pure."""
