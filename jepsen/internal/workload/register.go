package workload

import (
	"fmt"
	"strings"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// register: secrets of both versions, each a register.
var register = &Workload{
	Name:  "register",
	Does:  "KV v1 read, write, delete; KV v2 read, write and patch with cas, delete, undelete, destroy, old versions",
	Judge: judge.Register,
	Least: 20,
	Lacks: func(h *history.History) []string { return lacks(casKinds(h), casLeast) },
	Setup: func(e *Env) error {
		e.Shared = &registers{plain: newKeys("", 4, 160), versioned: newKeys("", 4, 80)}
		if err := mount(e, "plain", "1"); err != nil {
			return err
		}
		return mountVersions(e, "versioned")
	},
	Run: func(c *Client) {
		if c.ID < len(c.Cluster.Nodes) {
			watchNode(c, c.Shared.(*registers).plain)
			return
		}
		for !c.Stopped() {
			if c.Rand.Intn(2) == 0 {
				plainOp(c, c.Shared.(*registers).plain)
			} else {
				versionedOp(c, c.Shared.(*registers).versioned)
			}
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		r := c.Shared.(*registers)
		for _, key := range r.plain.every() {
			o := &history.Op{F: "read", Key: plainPrefix + key}
			reply, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/plain/" + key})
			if err != nil {
				return err
			}
			plainRead(c, o, reply)
		}
		for _, key := range r.versioned.every() {
			o := &history.Op{F: "read", Key: versionedPrefix + key}
			reply, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/versioned/data/" + key})
			if err != nil {
				return err
			}
			versionedRead(c, o, reply)
			if err := finalVersions(c, n, key, o.Version); err != nil {
				return err
			}
		}
		return nil
	},
}

// finalVersions reads the list of a key's versions, and each of them while clients still use the key.
func finalVersions(c *Client, n *cluster.Node, key string, newest int64) error {
	o := &history.Op{F: "versions", Key: versionedPrefix + key}
	reply, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/versioned/metadata/" + key})
	if err != nil {
		return err
	}
	versionsRead(c, o, reply)
	if !c.Shared.(*registers).versioned.inUse(key) {
		return nil
	}
	for version := int64(1); version <= newest; version++ {
		o := &history.Op{F: "readv", Key: versionedPrefix + key, Arg: version}
		reply, err := c.Settled(o, n, readVersion(key, version))
		if err != nil {
			return err
		}
		versionedRead(c, o, reply)
	}
	return nil
}

func readVersion(key string, version int64) cluster.Request {
	return cluster.Request{Method: "GET", Path: fmt.Sprintf("/v1/versioned/data/%s?version=%d", key, version)}
}

type registers struct{ plain, versioned *keys }

const (
	plainPrefix     = "v1/"
	versionedPrefix = "v2/"
	unknownCost     = 8 // of an unknown outcome, in uses of a key
	versionsMax     = 1000
)

// mountVersions mounts a KV v2 engine that keeps all versions of the run.
func mountVersions(e *Env, path string) error {
	if err := mount(e, path, "2"); err != nil {
		return err
	}
	_, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/" + path + "/config",
		Body: map[string]any{"max_versions": versionsMax}})
	return err
}

// watchNode reads at one node without a rest: a leader that was replaced and does not know it yet
// answers reads alone, and only for a fraction of a second. Such reads do not age a key.
func watchNode(c *Client, k *keys) {
	n := c.Cluster.Nodes[c.ID]
	for i := 0; !c.Stopped(); i++ {
		key := k.pick(i, 0)
		o := &history.Op{F: "read", Key: plainPrefix + key}
		r := c.Do(o, n, cluster.Request{Method: "GET", Path: "/v1/plain/" + key})
		plainRead(c, o, r)
		sleep(10)
	}
}

func plainOp(c *Client, k *keys) {
	key := k.pick(c.Rand.Intn(4), 1)
	path := "/v1/plain/" + key
	o := &history.Op{Key: plainPrefix + key}
	switch dice := c.Rand.Intn(20); {
	case dice < 9:
		o.F, o.Arg = "write", c.Unique()
		r := c.Do(o, nil, cluster.Request{Method: "PUT", Path: path, Body: c.secret(o.Arg)})
		plainDone(c, k, key, o, r)
	case dice < 10:
		o.F = "delete"
		r := c.Do(o, nil, cluster.Request{Method: "DELETE", Path: path})
		plainDone(c, k, key, o, r)
	default:
		o.F = "read"
		r := c.Do(o, nil, cluster.Request{Method: "GET", Path: path})
		plainRead(c, o, r)
	}
}

func plainDone(c *Client, k *keys, key string, o *history.Op, r cluster.Reply) {
	if r.Known() && r.Status != 204 {
		c.Wrong(o, r)
		return
	}
	if r.Unknown() {
		k.age(key, unknownCost)
	}
	c.Done(o)
}

func plainRead(c *Client, o *history.Op, r cluster.Reply) {
	var body struct{ Data struct{ V int64 } }
	if r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil) {
		c.Wrong(o, r)
		return
	}
	o.Value = body.Data.V
	c.Done(o)
}

// versionedReply is what a read of KV v2 answers.
type versionedReply struct {
	Data struct {
		Data     struct{ V int64 }
		Metadata struct {
			Version   int64
			Destroyed bool
		}
		Version int64
	}
}

func versionedOp(c *Client, k *keys) {
	key := k.pick(c.Rand.Intn(4), 1)
	o := &history.Op{Key: versionedPrefix + key}
	// A write needs to know the newest version: it reads first, on a node of its own choice.
	seen := &history.Op{F: "read", Key: o.Key}
	r := c.Do(seen, nil, cluster.Request{Method: "GET", Path: "/v1/versioned/data/" + key})
	versionedRead(c, seen, r)
	dice := c.Rand.Intn(20)
	if seen.Type != history.OK || seen.F != "read" || dice >= 18 {
		return
	}
	newest := seen.Version
	switch {
	case dice < 9:
		versionedWrite(c, k, key, o, "write", newest)
	case dice < 11:
		versionedWrite(c, k, key, o, "patch", newest)
	case dice < 13 && newest > 0:
		o.F, o.Arg = "readv", 1+c.Rand.Int63n(newest)
		r := c.Do(o, nil, readVersion(key, o.Arg))
		versionedRead(c, o, r)
	case dice < 14:
		o.F = "delete"
		r := c.Do(o, nil, cluster.Request{Method: "DELETE", Path: "/v1/versioned/data/" + key})
		plainDone(c, k, key, o, r)
	case newest > 0:
		o.F, o.Arg = "undelete", newest
		method := "POST"
		if dice == 17 {
			o.F, method = "destroy", "PUT"
		}
		r := c.Do(o, nil, cluster.Request{Method: method, Path: "/v1/versioned/" + o.F + "/" + key,
			Body: map[string]any{"versions": []int64{o.Arg}}})
		plainDone(c, k, key, o, r)
	}
}

func versionedWrite(c *Client, k *keys, key string, o *history.Op, f string, newest int64) {
	o.F, o.Arg, o.CAS = f, c.Unique(), &newest
	q := cluster.Request{Method: "PUT", Path: "/v1/versioned/data/" + key,
		Body: map[string]any{"data": c.secret(o.Arg), "options": map[string]any{"cas": newest}}}
	if f == "patch" {
		q.Method, q.Header = "PATCH", map[string]string{"Content-Type": "application/merge-patch+json"}
	}
	r := c.Do(o, nil, q)
	var made struct{ Data struct{ Version int64 } }
	switch {
	case r.Known() && r.Status == 200 && r.JSON(&made) == nil && made.Data.Version > 0:
		o.Version = made.Data.Version
	case r.Known() && r.Status == 400 && strings.Contains(string(r.Body), "did not match"):
	case r.Known() && r.Status == 404 && f == "patch":
	case r.Known():
		c.Wrong(o, r)
		return
	case r.Unknown():
		k.age(key, unknownCost)
	}
	c.Done(o)
}

func versionedRead(c *Client, o *history.Op, r cluster.Reply) {
	var body versionedReply
	if r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil) {
		c.Wrong(o, r)
		return
	}
	if r.Status == 404 {
		_ = r.JSON(&body) // an answer without data says that the key does not exist
	}
	o.Version, o.Value = body.Data.Metadata.Version, body.Data.Data.V
	c.Done(o)
}

// versionsRead counts what is listed of the versions from 1 to the newest.
func versionsRead(c *Client, o *history.Op, r cluster.Reply) {
	var body struct {
		Data struct {
			Newest   int64          `json:"current_version"`
			Versions map[string]any `json:"versions"`
		}
	}
	if r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil) {
		c.Wrong(o, r)
		return
	}
	o.Version = body.Data.Newest
	for version := int64(1); version <= o.Version; version++ {
		if body.Data.Versions[fmt.Sprint(version)] != nil {
			o.Arg++
		}
	}
	if o.Arg != int64(len(body.Data.Versions)) { // more are listed than there can be
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}

// casLeast of the writes with check-and-set must have been accepted, and as many refused.
const casLeast = 10

func casKinds(h *history.History) map[string]int {
	kinds := map[string]int{"check-and-set accepted": 0, "check-and-set refused": 0}
	for _, o := range h.Ops {
		switch {
		case o.CAS == nil || o.Type != history.OK:
		case o.Version > 0:
			kinds["check-and-set accepted"]++
		default:
			kinds["check-and-set refused"]++
		}
	}
	return kinds
}
