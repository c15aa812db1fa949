package cluster

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const drPath = "/v1/sys/replication/dr"

// DRStatus is what a node says of its role in a pair.
type DRStatus struct {
	Mode, State, Reason string
	Epoch, Version      int64
	MerkleRoot          string `json:"merkle_root"`
	RootVersion         int64  `json:"root_version"`
	Corrupted           bool   `json:"corrupted_merkle_tree"`
	Repaired            int64  `json:"repaired_differences"` // since the process began
	Secondaries         []struct {
		Confirmed int64 `json:"last_remote_wal"`
	}
}

// DR asks a node for its role. An error where it does not say.
func (c *Client) DR(n *Node, patience time.Duration) (DRStatus, error) {
	var body struct{ Data DRStatus }
	r := c.Do(n, Request{Method: "GET", Path: drPath + "/status", Bare: true, Timeout: patience})
	if r.Status != 200 {
		return body.Data, fmt.Errorf("status of %s: %s", n.Name, r.What())
	}
	return body.Data, r.JSON(&body)
}

// awaitDR until every node of the cluster says what is wanted.
func (c *Cluster) awaitDR(ask *Client, what string, holds func(DRStatus) bool) error {
	var have []DRStatus
	err := c.await(what, func() bool {
		have = have[:0]
		for _, n := range c.Nodes {
			s, err := ask.DR(n, time.Second)
			if err != nil || !holds(s) {
				have = append(have, s)
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, have)
	}
	return nil
}

// insist on a request: 5xx and lost answers mean to try again.
func (c *Cluster) insist(ask *Client, q Request) (Reply, error) {
	var r Reply
	err := c.await("ready", func() bool {
		for _, n := range c.Nodes {
			if r = ask.Do(n, q); r.Known() {
				return true
			}
		}
		return false
	})
	if err == nil && r.Status != 200 && r.Status != 204 {
		err = fmt.Errorf("%s", r.What())
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", q.Method, q.Path, err, r.What())
	}
	return r, err
}

// secondaryToken of a primary, for the cluster of this name.
func (c *Cluster) secondaryToken(ask *Client, name string) (string, error) {
	r, err := c.insist(ask, Request{Method: "POST", Path: drPath + "/primary/secondary-token", Body: map[string]any{"id": name}})
	if err != nil {
		return "", err
	}
	var made struct {
		WrapInfo struct{ Token string } `json:"wrap_info"`
	}
	return made.WrapInfo.Token, r.JSON(&made)
}

// Follow makes the first cluster of a pair the primary, and the other its secondary, which follows.
func (c *Cluster) Follow() error {
	ask := c.Client()
	defer ask.Close()
	for _, each := range []*Cluster{c, c.Other} {
		if err := each.awaitFeatures(); err != nil {
			return err
		}
	}
	if _, err := c.insist(ask, Request{Method: "POST", Path: drPath + "/primary/enable", Body: map[string]any{}}); err != nil {
		return err
	}
	token, err := c.secondaryToken(ask, "other")
	if err != nil {
		return err
	}
	b := c.Other
	told := b.Client()
	defer told.Close()
	authority, err := c.authorityFile()
	if err != nil {
		return err
	}
	if _, err := b.insist(told, Request{Method: "POST", Path: drPath + "/secondary/enable",
		Body: map[string]any{"token": token, "ca_file": authority}}); err != nil {
		return err
	}
	return b.AwaitFollowing()
}

// awaitFeatures until the cluster has all that its members understand.
func (c *Cluster) awaitFeatures() error {
	ask := c.Client()
	defer ask.Close()
	return c.await("at its feature level", func() bool {
		type level struct {
			Level int `json:"feature_level"`
		}
		var body struct {
			Data struct {
				level
				Servers map[string]level
			}
		}
		r := ask.Do(c.Nodes[0], Request{Method: "GET", Path: "/v1/sys/storage/raft/autopilot/state"})
		if r.Status != 200 || r.JSON(&body) != nil || len(body.Data.Servers) < len(c.Nodes) {
			return false
		}
		for _, each := range body.Data.Servers {
			if body.Data.Level < each.Level {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) authorityFile() (string, error) {
	return filepath.Abs(filepath.Join(c.dir, "tls", "tls-ca.pem"))
}

// AwaitFollowing waits until a secondary streams.
func (c *Cluster) AwaitFollowing() error {
	ask := c.Client()
	defer ask.Close()
	return c.awaitDR(ask, "following", func(s DRStatus) bool { return s.Mode == "secondary" && s.State == "stream-wals" })
}

// operationToken of a secondary, by the recovery key of the first primary.
func (c *Cluster) operationToken(ask *Client, key string) (token string, err error) {
	attempt := drPath + "/secondary/generate-operation-token"
	err = c.await("ready for an operation token", func() bool {
		n := c.Nodes[0]
		var begun struct {
			Nonce, OTP string
		}
		r := ask.Do(n, Request{Method: "POST", Path: attempt + "/attempt", Body: map[string]any{}, Bare: true})
		if r.Status != 200 || r.JSON(&begun) != nil {
			ask.Do(n, Request{Method: "DELETE", Path: attempt + "/attempt", Bare: true})
			return false
		}
		var last struct {
			Encoded string `json:"encoded_token"`
		}
		r = ask.Do(n, Request{Method: "POST", Path: attempt + "/update", Body: map[string]any{"key": key, "nonce": begun.Nonce}, Bare: true})
		if r.Status != 200 || r.JSON(&last) != nil {
			return false
		}
		mixed, failed := base64.RawStdEncoding.DecodeString(strings.TrimRight(last.Encoded, "="))
		if failed != nil || len(mixed) != len(begun.OTP) {
			return false
		}
		for i := range mixed {
			mixed[i] ^= begun.OTP[i]
		}
		token = string(mixed)
		return true
	})
	return token, err
}

// Demote the primary, in order.
func (c *Cluster) Demote() error {
	ask := c.Client()
	defer ask.Close()
	if _, err := c.insist(ask, Request{Method: "POST", Path: drPath + "/primary/demote"}); err != nil {
		return err
	}
	return c.awaitDR(ask, "demoted", func(s DRStatus) bool { return s.Mode == "secondary" })
}

// DRVersion of the newest state on any node.
func (c *Cluster) DRVersion() (version int64) {
	ask := c.Client()
	defer ask.Close()
	for _, n := range c.Nodes {
		if s, err := ask.DR(n, time.Second); err == nil {
			version = max(version, s.Version)
		}
	}
	return version
}

// AwaitVersion waits until each node has this version.
func (c *Cluster) AwaitVersion(version int64) error {
	ask := c.Client()
	defer ask.Close()
	return c.awaitDR(ask, "as new as the primary", func(s DRStatus) bool { return s.Version >= version })
}

// Promote a secondary. Forced: its primary does not answer.
func (c *Cluster) Promote(force bool) error {
	ask := c.Client()
	defer ask.Close()
	token, err := c.operationToken(ask, c.Other.share)
	if err != nil {
		return err
	}
	if _, err := c.insist(ask, Request{Method: "POST", Path: drPath + "/secondary/promote",
		Body: map[string]any{"dr_operation_token": token, "force": force}, Bare: true}); err != nil {
		return err
	}
	if err := c.awaitDR(ask, "promoted", func(s DRStatus) bool { return s.Mode == "primary" }); err != nil {
		return err
	}
	c.Token = c.Other.Token
	return c.AwaitUp()
}

// Return makes a former primary follow its successor. It is demoted first, if it is not.
func (c *Cluster) Return() error {
	ask := c.Client()
	defer ask.Close()
	primary := false
	if err := c.awaitDR(ask, "back", func(s DRStatus) bool {
		primary = s.Mode == "primary"
		return primary || s.Mode == "secondary"
	}); err != nil {
		return err
	}
	if primary {
		if err := c.Demote(); err != nil {
			return err
		}
	}
	token, err := c.operationToken(ask, c.share)
	if err != nil {
		return err
	}
	told := c.Other.Client()
	defer told.Close()
	bearer, err := c.Other.secondaryToken(told, "node")
	if err != nil {
		return err
	}
	authority, err := c.Other.authorityFile()
	if err != nil {
		return err
	}
	if _, err := c.insist(ask, Request{Method: "POST", Path: drPath + "/secondary/update-primary", Bare: true,
		Body: map[string]any{"dr_operation_token": token, "token": bearer, "ca_file": authority}}); err != nil {
		return err
	}
	return c.AwaitFollowing()
}

// EqualPair waits until the nodes of both clusters show one root at one version.
func (c *Cluster) EqualPair() error {
	asks := []*Client{c.Client(), c.Other.Client()}
	defer asks[0].Close()
	defer asks[1].Close()
	type root struct {
		Root    string
		Version int64
	}
	var have []root
	err := c.await("equal to the other", func() bool {
		have = have[:0]
		for i, each := range []*Cluster{c, c.Other} {
			for _, n := range each.Nodes {
				s, err := asks[i].DR(n, time.Second)
				if err != nil {
					return false
				}
				have = append(have, root{s.MerkleRoot, s.RootVersion})
			}
		}
		for _, each := range have {
			if each != have[0] {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%w: the nodes have %+v", err, have)
	}
	return nil
}
