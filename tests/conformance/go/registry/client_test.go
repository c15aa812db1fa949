// Package registry drives the registry of a running cluster with upstream's own Go client, unmodified.
//
// The environment names the cluster as it does for any user of that client (CONSUL_CACERT,
// CONSUL_HTTP_SSL). HOLDFAST_NODES has the addresses of the listeners that serve the registry alone, then
// those of the listeners that serve every API. HOLDFAST_TOKEN is a root token of the secrets service. The
// registry was not bootstrapped.
package registry

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"holdfast/conformance/record"
)

func addresses() []string { return strings.Split(os.Getenv("HOLDFAST_NODES"), ",") }

// connect makes a client as a user does, of one node and with a token of its own.
func connect(t *testing.T, address, token string) *api.Client {
	t.Helper()
	config := api.DefaultConfig()
	config.Address, config.Token = address, token
	client, err := api.NewHttpClient(config.Transport, config.TLSConfig)
	must(t, err)
	client.Transport = record.Transport{Next: client.Transport}
	config.HttpClient = client
	return got(api.NewClient(config))(t)
}

// every makes a client of each listener, with the root token of the secrets service.
func every(t *testing.T) []*api.Client {
	t.Helper()
	var clients []*api.Client
	for _, address := range addresses() {
		clients = append(clients, connect(t, address, os.Getenv("HOLDFAST_TOKEN")))
	}
	return clients
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// both is got for requests that also give the headers of a reply.
func both[T, M any](value T, meta M, err error) func(*testing.T) (T, M) {
	return func(t *testing.T) (T, M) {
		t.Helper()
		must(t, err)
		return value, meta
	}
}

func equal(t *testing.T, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("have %#v, want %#v", have, want)
	}
}

// refused demands an error of the server with this status and text.
func refused(t *testing.T, err error, status int, text string) {
	t.Helper()
	var reply api.StatusError
	if !errors.As(err, &reply) {
		t.Fatalf("want %d with %q, have %v", status, text, err)
	}
	if reply.Code != status || !strings.Contains(reply.Body, text) {
		t.Fatalf("want %d with %q, have %v", status, text, err)
	}
}

func TestEveryNodeNamesLeaderAndMembers(t *testing.T) {
	var leader string
	for _, address := range addresses() {
		client := connect(t, address, "")
		named := got(client.Status().Leader())(t)
		members := got(client.Status().Peers())(t)
		if leader == "" {
			leader = named
		}
		equal(t, named, leader)
		equal(t, len(members), 3)
		if !strings.Contains(strings.Join(members, ","), leader) {
			t.Fatalf("leader %s is not in %v", leader, members)
		}
	}
}

func TestEveryNodeDescribesItself(t *testing.T) {
	seen := map[string]bool{}
	for _, client := range every(t) {
		self := got(client.Agent().Self())(t)
		name := self["Config"]["NodeName"].(string)
		equal(t, self["Member"]["Name"], any(name))
		equal(t, self["Config"]["Server"], any(true))
		equal(t, got(client.Agent().NodeName())(t), name)
		seen[name] = true
	}
	equal(t, len(seen), 3)
	_, err := connect(t, addresses()[0], "").Agent().Self()
	refused(t, err, 403, "lacks permission 'agent:read'")
}

func TestListsOfWhatIsNotBuiltAreEmpty(t *testing.T) {
	for _, client := range every(t) {
		roles, _ := both(client.ACL().RoleList(nil))(t)
		methods, _ := both(client.ACL().AuthMethodList(nil))(t)
		rules, _ := both(client.ACL().BindingRuleList("", nil))(t)
		equal(t, []int{len(roles), len(methods), len(rules)}, []int{0, 0, 0})
	}
}

func TestEveryModeOfConsistencyIsTold(t *testing.T) {
	for _, client := range every(t) {
		for _, options := range []api.QueryOptions{{}, {RequireConsistent: true}, {AllowStale: true}} {
			_, meta := both(client.ACL().PolicyList(&options))(t)
			if meta.LastIndex == 0 || !meta.KnownLeader || meta.LastContact > time.Minute {
				t.Fatalf("%+v: %+v", options, meta)
			}
			if !options.AllowStale {
				equal(t, meta.LastContact, time.Duration(0))
			}
		}
		_, _, err := client.ACL().PolicyList(&api.QueryOptions{RequireConsistent: true, AllowStale: true})
		refused(t, err, 400, "Cannot specify ?stale with ?consistent, conflicting semantics.")
	}
}

func TestATokenThatIsUnknownIsRefused(t *testing.T) {
	for _, address := range addresses() {
		_, _, err := connect(t, address, "c3f1d2b4-7a6e-4f58-9b0c-d1e2f3a4b5c6").ACL().PolicyList(nil)
		refused(t, err, 403, "ACL not found")
		_, _, err = connect(t, address, "").ACL().PolicyList(nil)
		refused(t, err, 403, "Permission denied: anonymous token lacks permission 'acl:read'")
	}
}
