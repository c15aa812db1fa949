node "x" { policy = "list" }
