//go:build !openbao

package conformance

import (
	"testing"

	"github.com/hashicorp/vault/api"
)

func TestOneMountIsShown(t *testing.T) {
	mount := got(connect(t).Sys().GetMount("secret"))(t)
	equal(t, []string{mount.Type, mount.Options["version"]}, []string{"kv", "2"})
}

func TestCapabilitiesOfAnAccessor(t *testing.T) {
	client := connect(t)
	made := got(client.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"default"}}))(t)
	have := got(client.Sys().CapabilitiesAccessor(made.Auth.Accessor, "cubbyhole/x"))(t)
	equal(t, have, []string{"create", "delete", "list", "read", "update"})
}

// rotateKeys does nothing: this client has no calls for it.
func rotateKeys(_ *testing.T, _ *api.Client, keys []string) []string { return keys }
