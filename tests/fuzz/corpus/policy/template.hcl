path "id/{{identity.entity.id}}/*" { capabilities = ["update"]
 min_wrapping_ttl = "1s"
 max_wrapping_ttl = 90 }
path "/x/" { capabilities = ["patch"]
 denied_parameters { "*" = [] } }
