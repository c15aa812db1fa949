path "" {}
path "*" { capabilities=["read"] }
path "+" { capabilities=["list"] }
path "+/+/+" { capabilities=["recover"] }