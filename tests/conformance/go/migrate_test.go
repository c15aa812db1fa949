package conformance

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"
)

func TestASealMovesToKeyShares(t *testing.T) {
	client := connectTo(t, os.Getenv("HOLDFAST_MOVING"), "")
	keys := strings.Split(os.Getenv("HOLDFAST_MOVING_KEYS"), ",")
	eventually(t, "the migration is pending", func() bool {
		return got(client.Sys().SealStatus())(t).Migration
	})
	status := got(client.Sys().SealStatus())(t)
	equal(t, []any{status.Type, status.RecoverySeal, status.Sealed}, []any{"static", true, true})
	_, err := client.Sys().Unseal(keys[0])
	refused(t, err, http.StatusBadRequest, "migrate option not provided")
	first := &api.UnsealOpts{Key: keys[0], Migrate: true}
	status = got(client.Sys().UnsealWithOptions(first))(t)
	equal(t, []any{status.Progress, status.Migration, status.Sealed}, []any{1, true, true})
	equal(t, got(client.Sys().UnsealWithOptions(&api.UnsealOpts{Reset: true}))(t).Progress, 0)
	got(client.Sys().UnsealWithOptions(first))(t)
	second := &api.UnsealOpts{Key: keys[1], Migrate: true}
	equal(t, got(client.Sys().UnsealWithOptions(second))(t).Sealed, false)
	eventually(t, "the seal has moved", func() bool {
		status := got(client.Sys().SealStatus())(t)
		return status.Type == "shamir" && !status.Migration && !status.RecoverySeal
	})
	must(t, connectTo(t, os.Getenv("HOLDFAST_MOVING"), os.Getenv("HOLDFAST_MOVING_TOKEN")).Sys().Seal())
	for _, key := range keys[1:] {
		status = got(client.Sys().Unseal(key))(t)
	}
	equal(t, status.Sealed, false)
}
