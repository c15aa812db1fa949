path "a/+/b*" { capabilities = ["read", "list"] }
path "a/b" { capabilities = ["deny"] }
path "a/*" { policy = "write" }
