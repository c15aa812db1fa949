package registry

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// TestABootstrap also shows that a second bootstrap is refused, so it runs once for a cluster.
func TestABootstrapGivesOneTokenWithAllRights(t *testing.T) {
	nodes := addresses()
	made, _ := both(connect(t, nodes[0], "").ACL().Bootstrap())(t)
	equal(t, made.Description, "Bootstrap Token (Global Management)")
	equal(t, made.Policies[0].Name, "global-management")
	for _, address := range nodes {
		_, _, err := connect(t, address, "").ACL().Bootstrap()
		refused(t, err, 403, "Permission denied: ACL bootstrap no longer allowed (reset index: ")
		acl := connect(t, address, made.SecretID).ACL()
		self, _ := both(acl.TokenReadSelf(nil))(t)
		equal(t, self.AccessorID, made.AccessorID)
		both(acl.PolicyList(nil))(t)
	}
}

func TestATokenIsWrittenAndReadThroughEveryNode(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		policy, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name, Rules: webRules}, nil))(t)
		link := []*api.ACLTokenPolicyLink{{Name: name}}
		made, _ := both(writer.TokenCreate(&api.ACLToken{Description: name, Policies: link}, nil))(t)
		equal(t, []string{made.Policies[0].ID, made.Policies[0].Name}, []string{policy.ID, name})
		have, _ := both(reader.TokenRead(made.AccessorID, nil))(t)
		equal(t, have, made)
		expanded, _ := both(reader.TokenReadExpanded(made.AccessorID, nil))(t)
		equal(t, expanded.ExpandedPolicies[0].Rules, webRules)

		changed := *have
		changed.Description = "second"
		saved, _ := both(writer.TokenUpdate(&changed, nil))(t)
		equal(t, []string{saved.Description, saved.SecretID}, []string{"second", made.SecretID})
		clone, _ := both(writer.TokenClone(made.AccessorID, "third", nil))(t)
		equal(t, []string{clone.Description, clone.Policies[0].ID}, []string{"third", policy.ID})
		if clone.SecretID == made.SecretID || clone.AccessorID == made.AccessorID {
			t.Fatalf("%+v is no clone but the token itself", clone)
		}

		list, _ := both(reader.TokenListFiltered(api.ACLTokenFilterOptions{Policy: policy.ID}, nil))(t)
		equal(t, len(list), 2)
		got(writer.PolicyDelete(policy.ID, nil))(t)
		left, _ := both(reader.TokenRead(made.AccessorID, nil))(t)
		equal(t, len(left.Policies), 0)
		for _, accessor := range []string{made.AccessorID, clone.AccessorID} {
			got(writer.TokenDelete(accessor, nil))(t)
			_, _, err := reader.TokenRead(accessor, nil)
			refused(t, err, 403, "ACL not found")
		}
	})
}

func TestATokenMayDoWhatItsPoliciesAllow(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, _ *api.ACL) {
		both(writer.PolicyCreate(&api.ACLPolicy{Name: name, Rules: `acl = "read"`}, nil))(t)
		link := []*api.ACLTokenPolicyLink{{Name: name}}
		made, _ := both(writer.TokenCreate(&api.ACLToken{Policies: link}, nil))(t)
		for _, address := range addresses() {
			acl := connect(t, address, made.SecretID).ACL()
			both(acl.PolicyList(nil))(t)
			_, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: name + "-more"}, nil)
			refused(t, err, 403, "Permission denied: token with AccessorID '"+made.AccessorID+
				"' lacks permission 'acl:write'")
			hidden, _ := both(acl.TokenRead(made.AccessorID, nil))(t)
			equal(t, hidden.SecretID, "<hidden>")
			self, _ := both(acl.TokenReadSelf(nil))(t)
			equal(t, self.SecretID, made.SecretID)
		}
		got(writer.TokenDelete(made.AccessorID, nil))(t)
	})
}

func TestATokenEnds(t *testing.T) {
	each(t, func(t *testing.T, _ string, writer, reader *api.ACL) {
		made, _ := both(writer.TokenCreate(&api.ACLToken{ExpirationTTL: time.Minute}, nil))(t)
		life := made.ExpirationTime.Sub(made.CreateTime)
		if life < 59*time.Second || life > 61*time.Second {
			t.Fatalf("lives for %s", life)
		}
		_, _, err := reader.TokenCreate(&api.ACLToken{ExpirationTTL: 25 * time.Hour}, nil)
		refused(t, err, 500, "ExpirationTime cannot be more than 24h0m0s in the future")
		_, _, err = reader.TokenCreate(&api.ACLToken{ExpirationTTL: time.Second}, nil)
		refused(t, err, 500, "less than 1m0s")
		got(writer.TokenDelete(made.AccessorID, nil))(t)
	})
}
