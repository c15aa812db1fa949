package registry

import (
	"fmt"
	"testing"

	"github.com/hashicorp/consul/api"
)

const webRules = `service "web" { policy = "write" }`

// each runs a test with pairs of clients: one that writes, and the next one, which reads.
func each(t *testing.T, run func(t *testing.T, name string, writer, reader *api.ACL)) {
	clients := every(t)
	for i := range clients {
		name := fmt.Sprintf("%s-%d", t.Name(), i)
		run(t, name, clients[i].ACL(), clients[(i+1)%len(clients)].ACL())
	}
}

func TestAPolicyIsWrittenAndReadThroughEveryNode(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		made, _ := both(writer.PolicyCreate(&api.ACLPolicy{
			Name: name, Description: "first", Rules: webRules, Datacenters: []string{"east"}}, nil))(t)
		equal(t, []any{made.Name, made.Description, made.Rules}, []any{name, "first", webRules})
		equal(t, len(made.Hash), 32)
		if made.CreateIndex == 0 || made.CreateIndex != made.ModifyIndex {
			t.Fatalf("made %+v", made)
		}
		have, _ := both(reader.PolicyRead(made.ID, nil))(t)
		equal(t, have, made)
		named, _ := both(reader.PolicyReadByName(name, nil))(t)
		equal(t, named, made)

		changed := *have // as the command line does: what was read is sent back whole
		changed.Description = "second"
		changed.Datacenters = nil
		saved, _ := both(writer.PolicyUpdate(&changed, nil))(t)
		if saved.ModifyIndex <= made.ModifyIndex || saved.CreateIndex != made.CreateIndex {
			t.Fatalf("was %+v, is %+v", made, saved)
		}
		again, _ := both(writer.PolicyUpdate(&changed, nil))(t)
		if again.ModifyIndex <= saved.ModifyIndex {
			t.Fatal("the same update again does not count")
		}
		equal(t, again.Hash, saved.Hash)

		list, _ := both(reader.PolicyList(nil))(t)
		found := false
		for i, entry := range list {
			found = found || (entry.ID == made.ID && entry.Name == name && entry.Description == "second")
			if i > 0 && list[i-1].ID >= entry.ID {
				t.Fatalf("not sorted: %s, %s", list[i-1].ID, entry.ID)
			}
		}
		equal(t, found, true)

		got(writer.PolicyDelete(made.ID, nil))(t)
		gone, _, err := reader.PolicyReadByName(name, nil)
		must(t, err)
		if gone != nil {
			t.Fatalf("deleted, and still %+v", gone)
		}
	})
}

func TestWrongPoliciesAreRefusedAsUpstreamRefusesThem(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		made, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name}, nil))(t)
		other, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name + "-other"}, nil))(t)
		_, _, err := reader.PolicyCreate(&api.ACLPolicy{Name: name}, nil)
		refused(t, err, 500, `Invalid Policy: A Policy with Name "`+name+`" already exists`)
		_, _, err = reader.PolicyUpdate(&api.ACLPolicy{ID: other.ID, Name: name}, nil)
		refused(t, err, 500, `Invalid Policy: A policy with name "`+name+`" already exists`)
		_, _, err = reader.PolicyCreate(&api.ACLPolicy{Name: "a b"}, nil)
		refused(t, err, 500, "Invalid Policy: invalid Name.")
		_, _, err = reader.PolicyCreate(&api.ACLPolicy{Name: name + "-bad", Rules: `acl = `}, nil)
		refused(t, err, 500, "Failed to parse ACL rules")
		_, _, err = reader.PolicyCreate(&api.ACLPolicy{Name: name + "-bad", Rules: `key "a" { policy = "all" }`}, nil)
		refused(t, err, 500, "Invalid key policy")
		_, _, err = reader.PolicyUpdate(&api.ACLPolicy{ID: "0e1b9c6a-6f3b-4a53-9f3e-000000000000", Name: "x"}, nil)
		refused(t, err, 500, "cannot find policy 0e1b9c6a-6f3b-4a53-9f3e-000000000000")
		for _, policy := range []string{made.ID, other.ID} {
			got(reader.PolicyDelete(policy, nil))(t)
		}
	})
}

func TestBuiltinPoliciesAreGuarded(t *testing.T) {
	each(t, func(t *testing.T, _ string, writer, reader *api.ACL) {
		builtin, _ := both(reader.PolicyReadByName("global-management", nil))(t)
		equal(t, builtin.ID, "00000000-0000-0000-0000-000000000001")
		changed := *builtin
		changed.Rules = webRules
		_, _, err := writer.PolicyUpdate(&changed, nil)
		refused(t, err, 500, "Changing the Rules for the builtin global-management policy is not permitted")
		_, err = writer.PolicyDelete(builtin.ID, nil)
		refused(t, err, 500, "") // the client drops the text of a refused deletion
	})
}
