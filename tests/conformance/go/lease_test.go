package conformance

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"
)

// orphan gives a token of one hour and its lease.
func orphan(t *testing.T, client *api.Client) (string, string) {
	t.Helper()
	token := got(client.Auth().Token().CreateOrphan(&api.TokenCreateRequest{TTL: "1h",
		Policies: []string{"default"}}))(t).Auth.ClientToken
	keys := got(client.Logical().List("sys/leases/lookup/auth/token/create-orphan"))(t).Data["keys"].([]any)
	equal(t, len(keys), 1)
	return token, "auth/token/create-orphan/" + keys[0].(string)
}

func ended(t *testing.T, client *api.Client, token string) {
	t.Helper()
	_, err := client.Auth().Token().Lookup(token)
	refused(t, err, http.StatusForbidden, "bad token")
}

func TestLeasesAreLookedUpAndRevoked(t *testing.T) {
	client := connect(t)
	sys := client.Sys()
	must(t, sys.RevokePrefix("auth/token/create-orphan"))
	token, lease := orphan(t, client)
	found := got(sys.Lookup(lease))(t)
	equal(t, found.Data["id"], lease)
	equal(t, found.Data["renewable"], true)
	_, err := sys.Renew(lease, 60)
	refused(t, err, http.StatusBadRequest, "auth/token/renew")
	_, err = sys.Renew("secret/none", 60)
	refused(t, err, http.StatusBadRequest, "lease not found")
	must(t, sys.Revoke(lease))
	ended(t, client, token)
	_, err = sys.Lookup(lease)
	refused(t, err, http.StatusBadRequest, "invalid lease")
	must(t, sys.Revoke(lease)) // an unknown lease is no error
	for _, options := range []api.RevokeOptions{
		{}, {Sync: true}, {Prefix: true}, {Prefix: true, Sync: true}, {Prefix: true, Force: true},
	} {
		token, lease = orphan(t, client)
		options.LeaseID = lease
		if options.Prefix {
			options.LeaseID = lease[:strings.LastIndex(lease, "/")]
		}
		must(t, sys.RevokeWithOptions(&options))
		ended(t, client, token)
	}
	token, _ = orphan(t, client)
	must(t, sys.RevokeForce("auth/token/create-orphan"))
	ended(t, client, token)
}

func TestLeasesOfAnEngine(t *testing.T) {
	client := connectTo(t, os.Getenv("HOLDFAST_LAMPS"), os.Getenv("HOLDFAST_LAMPS_TOKEN"))
	sys, logical := client.Sys(), client.Logical()
	take := func() *api.Secret {
		return got(logical.Write("lamp/take/red", map[string]any{"ttl": "10m"}))(t)
	}
	burns := func(want bool) {
		t.Helper()
		equal(t, got(logical.Read("lamp/take/red"))(t) != nil, want)
	}
	lease := take()
	equal(t, []any{lease.Renewable, lease.LeaseDuration}, []any{true, 600})
	renewed := got(sys.Renew(lease.LeaseID, 1200))(t)
	equal(t, []any{renewed.LeaseID, renewed.Renewable}, []any{lease.LeaseID, true})
	if renewed.LeaseDuration <= 1190 || renewed.LeaseDuration > 1200 || len(renewed.Warnings) != 0 {
		t.Fatal(renewed.LeaseDuration, renewed.Warnings)
	}
	renewed = got(sys.Renew(lease.LeaseID, 9000*3600))(t)
	if renewed.LeaseDuration > 768*3600 || len(renewed.Warnings) != 1 {
		t.Fatal(renewed.LeaseDuration, renewed.Warnings)
	}
	if last := got(sys.Lookup(lease.LeaseID))(t).Data["last_renewal"]; last == nil {
		t.Fatal("the lease was renewed")
	}
	must(t, sys.Revoke(lease.LeaseID))
	burns(false)
	_, err := sys.Renew(lease.LeaseID, 60)
	refused(t, err, http.StatusBadRequest, "lease not found")
	for _, options := range []api.RevokeOptions{
		{}, {Sync: true}, {Prefix: true}, {Prefix: true, Sync: true}, {Prefix: true, Force: true},
	} {
		options.LeaseID = take().LeaseID
		if options.Prefix {
			options.LeaseID = "lamp/take/red"
		}
		burns(true)
		must(t, sys.RevokeWithOptions(&options))
		burns(false)
	}
	counted := got(logical.ReadWithData("sys/leases/count", map[string][]string{"creators": {"true"}}))(t).Data
	equal(t, counted["creators"], []any{})
	lease = take()
	watcher := got(client.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: lease, Increment: 700}))(t)
	go watcher.Start()
	defer watcher.Stop()
	equal(t, (<-watcher.RenewCh()).Secret.LeaseID, lease.LeaseID)
	must(t, sys.RevokePrefix("lamp"))
	burns(false)
}

// Paths for which the client has no function, or calls another spelling.
func TestTheOtherPathsOfLeases(t *testing.T) {
	client := connect(t)
	sys, logical := client.Sys(), client.Logical()
	must(t, sys.RevokePrefix("auth/token/create-orphan"))
	for _, path := range []string{"sys/revoke", "sys/leases/revoke"} {
		token, lease := orphan(t, client)
		got(logical.Write(path, map[string]any{"lease_id": lease}))(t)
		ended(t, client, token)
		token, lease = orphan(t, client)
		got(logical.Write(path+"/"+lease, nil))(t)
		ended(t, client, token)
	}
	for _, path := range []string{"sys/revoke-prefix/", "sys/revoke-force/"} {
		token, _ := orphan(t, client)
		got(logical.Write(path+"auth/token/create-orphan", nil))(t)
		ended(t, client, token)
	}
	_, lease := orphan(t, client)
	for _, path := range []string{"sys/renew", "sys/leases/renew"} {
		_, err := logical.Write(path, map[string]any{"lease_id": lease, "increment": 60})
		refused(t, err, http.StatusBadRequest, "auth/token/renew")
		_, err = logical.Write(path+"/"+lease, map[string]any{"increment": 60})
		refused(t, err, http.StatusBadRequest, "auth/token/renew")
	}
	all := got(logical.List("sys/leases"))(t).Data
	equal(t, number(t, all["lease_count"]), int64(len(all["leases"].([]any))))
	one := got(logical.ReadWithData("sys/leases", map[string][]string{"limit": {"1"}}))(t).Data
	equal(t, len(one["leases"].([]any)), 1)
	for _, path := range []string{"sys/leases", "sys/leases/count"} {
		none := got(logical.ReadWithData(path, map[string][]string{"type": {"irrevocable"}}))(t).Data
		equal(t, number(t, none["lease_count"]), int64(0))
	}
	tidied := got(logical.Write("sys/leases/tidy", nil))(t)
	if len(tidied.Warnings) != 1 || !strings.Contains(tidied.Warnings[0], "Nothing to do") {
		t.Fatalf("have %v", tidied.Warnings)
	}
	must(t, sys.RevokePrefix("auth/token/create-orphan"))
}

func TestQuotasOfLeases(t *testing.T) {
	client := connect(t)
	logical := client.Logical()
	got(logical.Write("sys/quotas/lease-count/go", map[string]any{"path": "secret", "max_leases": 1}))(t)
	read := got(logical.Read("sys/quotas/lease-count/go"))(t).Data
	equal(t, []any{read["name"], read["type"], read["path"]}, []any{"go", "lease-count", "secret/"})
	equal(t, number(t, read["max_leases"]), int64(1))
	equal(t, number(t, read["counter"]), int64(0))
	equal(t, got(logical.List("sys/quotas/lease-count"))(t).Data["keys"], []any{"go"})
	got(logical.Delete("sys/quotas/lease-count/go"))(t)
	got(logical.Write("sys/quotas/lease-count/go",
		map[string]any{"path": "auth/token/create-orphan", "max_leases": 1}))(t)
	token, lease := orphan(t, client)
	must(t, client.Sys().PutPolicy("orphans", `path "auth/token/create-orphan" { capabilities = ["create", "update", "sudo"] }`))
	maker := got(client.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"orphans"}}))(t).Auth.ClientToken
	mine := connectTo(t, addresses("HOLDFAST_NODES")[1], maker)
	_, err := mine.Auth().Token().CreateOrphan(&api.TokenCreateRequest{TTL: "1h"})
	refused(t, err, http.StatusTooManyRequests, "lease count quota exceeded")
	must(t, client.Sys().Revoke(lease))
	ended(t, client, token)
	got(mine.Auth().Token().CreateOrphan(&api.TokenCreateRequest{TTL: "1h"}))(t)
	got(logical.Delete("sys/quotas/lease-count/go"))(t)
	must(t, client.Auth().Token().RevokeTree(maker))
	must(t, client.Sys().RevokePrefix("auth/token/create-orphan"))
}
