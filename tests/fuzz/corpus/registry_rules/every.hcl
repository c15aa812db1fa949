acl = "write"
operator = "read"
key_prefix "" { policy = "list" }
key "app/a" { policy = "deny" }
service_prefix "web" {
  policy     = "write"
  intentions = "deny"
}
service "web" { policy = "read" }
identity "x" { policy = "read" }
sesion "x" { policy = "read" }
