package cluster

import (
	"bytes"
	"fmt"
)

const raftPath = "/v1/sys/storage/raft/"

// MemberChange is the request that removes (remove-peer), readmits, promotes or demotes the node.
func (n *Node) MemberChange(what string) Request {
	return Request{Method: "POST", Path: raftPath + what, Body: map[string]any{"server_id": n.Name}}
}

// Changed says whether a known reply to MemberChange means that the members are as asked for.
func Changed(what string, r Reply) bool {
	return r.Status == 204 || (what == "readmit" && r.Status == 400) // it was admitted before
}

// MajorityNeeds says whether a reply to MemberChange refuses to take a vote that the majority needs
// while another member is away.
func MajorityNeeds(r Reply) bool {
	return r.Status == 400 && bytes.Contains(r.Body, []byte("which is no majority"))
}

// Renew is a fresh machine of the same name: an empty disk, and a process that joins by itself.
func (n *Node) Renew() error {
	if err := n.Kill(); err != nil {
		return err
	}
	if err := n.Wipe(); err != nil {
		return err
	}
	return n.Start()
}

// VoteAtOnce gives a member its vote as soon as it is healthy; by default that takes ten seconds.
func (c *Cluster) VoteAtOnce() error {
	ask := c.Client()
	defer ask.Close()
	r := ask.Do(c.Nodes[0], Request{Method: "POST", Path: raftPath + "autopilot/configuration",
		Body: map[string]any{"server_stabilization_time": 0}})
	if r.Status != 204 {
		return fmt.Errorf("autopilot: %s", r.What())
	}
	return nil
}

// Voters are the names of the members with a vote, as the node that says it is active knows them.
func (c *Cluster) Voters(ask *Client) (names map[string]bool) {
	active := c.Active()
	if active == nil {
		return nil
	}
	r := ask.Do(active, Request{Method: "GET", Path: raftPath + "configuration", Timeout: requestTimeout / 10})
	var body struct {
		Data struct {
			Config struct {
				Servers []struct {
					NodeID string `json:"node_id"`
					Voter  bool
				}
			}
		}
	}
	if r.Status != 200 || r.JSON(&body) != nil {
		return nil
	}
	names = map[string]bool{}
	for _, s := range body.Data.Config.Servers {
		if s.Voter {
			names[s.NodeID] = true
		}
	}
	return names
}
