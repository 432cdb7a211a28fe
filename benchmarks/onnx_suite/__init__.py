"""The ONNX backend suite of the installed onnx wheel through atc, .om and acl.mdl.execute."""
