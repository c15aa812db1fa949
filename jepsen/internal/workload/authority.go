package workload

import (
	"fmt"
	"sync"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// authority: an operator takes and gives authority, by the policy or the token, while users use it on
// every node.
var authority = &Workload{
	Name:  "authority",
	Does:  "revoke a token, edit its policy, against users on every node",
	Judge: judge.Authority,
	Least: 20,
	Setup: func(e *Env) error {
		e.Shared = &grants{}
		if err := mount(e, "area", "1"); err != nil {
			return err
		}
		_, err := setup(e, cluster.Request{Method: "PUT", Path: "/v1/area/x", Body: e.secret(e.Unique())})
		return err
	},
	Run: func(c *Client) {
		if c.ID < operators {
			for !c.Stopped() {
				operate(c, c.Shared.(*grants))
			}
			return
		}
		for !c.Stopped() {
			if g := c.Shared.(*grants).pick(c); g != nil {
				o := &history.Op{F: "read", Key: g.key}
				r := c.Do(o, nil, g.use(c))
				grantDone(c, o, r)
			}
			sleep(15) // quiet times would outweigh faults
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, g := range c.Shared.(*grants).every() {
			o := &history.Op{F: "read", Key: g.key}
			r, err := c.Settled(o, n, g.use(c))
			if err != nil {
				return err
			}
			grantDone(c, o, r)
		}
		return nil
	},
}

const (
	operators    = 2
	grantChanges = 12 // of one grant, before the next takes its place
)

type grant struct{ key, policy, token string }

// use is a read or a write that the grant allows.
func (g *grant) use(c *Client) cluster.Request {
	if c.Rand.Intn(3) == 0 {
		return cluster.Request{Method: "PUT", Path: "/v1/area/" + g.key, Body: c.secret(c.Unique()), Token: g.token}
	}
	return cluster.Request{Method: "GET", Path: "/v1/area/x", Token: g.token}
}

func grantDone(c *Client, o *history.Op, r cluster.Reply) {
	switch {
	case r.Known() && (r.Status == 200 || r.Status == 204):
		o.Value = judge.Allowed
	case r.Known() && r.Status == 403:
		o.Value = judge.Denied
	case r.Known():
		c.Wrong(o, r)
		return
	default: // a use of unknown outcome says nothing about authority
		o.Type, o.Return = history.Info, history.Open
	}
	c.Done(o)
}

type grants struct {
	mu   sync.Mutex
	now  [operators]*grant
	past []*grant
}

func (g *grants) put(at int, one *grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now[at] != nil {
		g.past = append(g.past, g.now[at])
	}
	g.now[at] = one
}

func (g *grants) pick(c *Client) *grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now[c.Rand.Intn(operators)]
}

func (g *grants) every() (all []*grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all = append(all, g.past...)
	for _, each := range g.now {
		if each != nil {
			all = append(all, each)
		}
	}
	return all
}

const (
	rulesAllow = `path "area/*" { capabilities = ["create", "read", "update"] }`
	rulesDeny  = `path "other/*" { capabilities = ["read"] }`
)

// operate one grant for its life: its policy changes to and fro, then the token is revoked.
func operate(c *Client, all *grants) {
	g := &grant{key: fmt.Sprintf("g%d", c.Unique())}
	g.policy = g.key
	if !decide(c, g, judge.Allowed, policyPut(g, rulesAllow)) {
		return
	}
	g.token = newToken(c, "", map[string]any{"policies": []string{g.policy}, "no_default_policy": true, "ttl": "1h"})
	if g.token == "" {
		return
	}
	all.put(c.ID, g)
	for i := range grantChanges {
		pause(c)
		decision, rules := int64(judge.Denied), rulesDeny
		if i%2 == 1 {
			decision, rules = judge.Allowed, rulesAllow
		}
		if !decide(c, g, decision, policyPut(g, rules)) {
			return
		}
	}
	pause(c)
	decide(c, g, judge.Denied, cluster.Request{Method: "POST", Path: "/v1/auth/token/revoke", Body: map[string]any{"token": g.token}})
	pause(c)
}

func policyPut(g *grant, rules string) cluster.Request {
	return cluster.Request{Method: "PUT", Path: "/v1/sys/policies/acl/" + g.policy, Body: map[string]any{"policy": rules}}
}

// decide until it is certain; false when the run is over first. After an unknown outcome another node is
// asked: many of those would make the judgement dear.
func decide(c *Client, g *grant, decision int64, q cluster.Request) bool {
	for n := c.Node(); !c.Stopped(); n = c.Cluster.Nodes[c.Rand.Intn(len(c.Cluster.Nodes))] {
		o := &history.Op{F: "write", Key: g.key, Arg: decision}
		r := c.Do(o, n, q)
		if r.Known() && r.Status != 204 && r.Status != 200 {
			c.Wrong(o, r)
			return false
		}
		c.Done(o)
		if r.Known() {
			return true
		}
		if r.Unknown() && decision == judge.Allowed {
			return false // it may be allowed at any time later: nothing more could be said of it
		}
	}
	return false
}

// pause lets users try.
func pause(c *Client) {
	for range 5 + c.Rand.Intn(10) {
		if c.Stopped() {
			return
		}
		sleep(20)
	}
}
