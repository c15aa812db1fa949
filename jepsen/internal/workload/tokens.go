package workload

import (
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// tokens: users share tokens that expire, are renewed, have a number of uses, or are revoked with their
// tree, and use each of them through all nodes at once.
var tokens = &Workload{
	Name:  "tokens",
	Does:  "time to live, renewal, number of uses, trees and their revocation, batch tokens",
	Judge: judge.Tokens,
	Least: 20,
	Lacks: func(h *history.History) []string { return lacks(tokenKinds(h), usesLeast) },
	Setup: func(e *Env) error {
		e.Shared = &tokenPool{}
		return mount(e, "tokens", "1")
	},
	Run: func(c *Client) {
		p := c.Shared.(*tokenPool)
		for !c.Stopped() {
			switch dice := c.Rand.Intn(100); {
			case dice < 15 && p.count() < liveMax:
				makeToken(c, p)
			case dice < 18:
				if t := p.pick(c.Rand, judge.Tree, false); t != nil {
					revokeTree(c, p, t)
				}
			case dice < 30:
				if t := p.pick(c.Rand, "", true); t != nil {
					useToken(c, p, t, nil)
				}
			case dice < 45:
				renewOne(c, p)
			default:
				kind := tokenKindsAll[c.Rand.Intn(len(tokenKindsAll))]
				if t := p.pick(c.Rand, kind, false); t != nil {
					useToken(c, p, t, nil)
				} else {
					makeToken(c, p)
				}
			}
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		p := c.Shared.(*tokenPool)
		for _, t := range p.sample(c.Rand, finalTokens) {
			if t.kind == judge.Limited && !t.ended {
				continue
			}
			o := &history.Op{F: "use", Key: t.key}
			r, err := c.Settled(o, n, selfLookup(t))
			if err != nil {
				return err
			}
			tokenDone(c, p, t, o, r)
		}
		return nil
	},
}

var tokenKindsAll = []string{judge.Brief, judge.Limited, judge.Tree, judge.Renewed, judge.Periodic, judge.Batch}

const (
	liveMax     = 32
	finalTokens = 100
	treeDepth   = 3
)

const (
	endedWithParent   = judge.Batch + " ended with its parent"
	goodWithoutParent = judge.Batch + " good without a parent"
)

// usesLeast of the tokens of each kind must have been accepted during the run, and as many refused.
const usesLeast = 10

func tokenKinds(h *history.History) map[string]int {
	kinds, made := map[string]int{}, map[string]*history.Op{}
	for _, kind := range tokenKindsAll {
		kinds[kind+" used"], kinds[kind+" refused"] = 0, 0
	}
	for _, kind := range []string{judge.Renewed, judge.Periodic} {
		kinds[kind+" renewed"], kinds[kind+" outlived its ttl"] = 0, 0
	}
	kinds[judge.Batch+" not renewed"], kinds[endedWithParent], kinds[goodWithoutParent] = 0, 0, 0
	revoked := map[string]bool{}
	for _, o := range h.Ops {
		switch m := made[o.Key]; {
		case o.Type != history.OK || o.Final:
		case o.F == "revoke":
			revoked[o.Key] = true
		case o.F == "create":
			made[o.Key] = o
		case (o.F != "use" && o.F != "renew") || m == nil:
		case !judge.Accepted(o):
			kinds[m.Text+" refused"]++
			if m.Text == judge.Batch && m.Names != nil {
				kinds[endedWithParent]++
			}
		default:
			kinds[m.Text+" used"]++
			if o.F == "renew" && o.Value > 0 {
				kinds[m.Text+" renewed"]++
			} else if o.F == "renew" {
				kinds[m.Text+" not renewed"]++
			}
			if m.Values != nil && o.Invoke > m.Value {
				kinds[m.Text+" outlived its ttl"]++
			}
			if root, _, _ := strings.Cut(o.Key, "."); m.Text == judge.Batch && m.Names == nil && revoked[root] {
				kinds[goodWithoutParent]++
			}
		}
	}
	return kinds
}

type token struct {
	key, text, kind string
	ended           bool
	tree            []*token
	life            life
}

type tokenPool struct {
	mu          sync.Mutex
	live, ended []*token
}

func (p *tokenPool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live)
}

func (p *tokenPool) add(all ...*token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = append(p.live, all...)
}

// pick a live token of a kind, or one that has ended; nil if there is none.
func (p *tokenPool) pick(r *rand.Rand, kind string, ended bool) *token {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fitting []*token
	for _, t := range map[bool][]*token{false: p.live, true: p.ended}[ended] {
		if kind == "" || t.kind == kind {
			fitting = append(fitting, t)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return fitting[r.Intn(len(fitting))]
}

func (p *tokenPool) end(all ...*token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range all {
		if t.ended {
			continue
		}
		t.ended = true
		p.ended = append(p.ended, t)
		for i, each := range p.live {
			if each == t {
				p.live = append(p.live[:i:i], p.live[i+1:]...)
				break
			}
		}
	}
}

func (p *tokenPool) sample(r *rand.Rand, most int) []*token {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(append([]*token(nil), p.live...), p.ended...)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), most)]
}

// newToken by the owner of `by`, root's if "". Nil when it was refused, or the run is over.
func newToken(c *Client, by string, fields map[string]any) (text string) {
	r := c.Root(cluster.Request{Method: "POST", Path: "/v1/auth/token/create", Body: fields, Token: by})
	var made struct {
		Auth struct {
			ClientToken string `json:"client_token"`
		}
	}
	if r == nil {
		return ""
	}
	if r.Status != 200 || r.JSON(&made) != nil {
		c.Wrong(&history.Op{F: "create", Process: c.ID, Invoke: c.Record.Now()}, *r)
	}
	return made.Auth.ClientToken
}

func makeToken(c *Client, p *tokenPool) {
	o := &history.Op{F: "create", Process: c.ID, Type: history.OK, Invoke: c.Record.Now()}
	o.Key = fmt.Sprintf("t%d", c.Unique())
	switch c.Rand.Intn(6) {
	case 0:
		o.Text = judge.Brief
		makeExpiring(c, p, o, "", map[string]any{"ttl": fmt.Sprintf("%ds", 2+c.Rand.Intn(4))})
	case 1:
		o.Text, o.Arg = judge.Limited, 1+c.Rand.Int63n(24)
		if text := newToken(c, "", map[string]any{"ttl": "1h", "num_uses": o.Arg}); text != "" {
			o.Return = c.Record.Now()
			c.Done(o)
			p.add(&token{key: o.Key, text: text, kind: judge.Limited})
		}
	case 2:
		makeRenewed(c, p, o)
	case 3:
		makePeriodic(c, p, o)
	case 4:
		o.Text = judge.Batch
		makeExpiring(c, p, o, "", map[string]any{"type": "batch", "policies": []string{"default"},
			"ttl": fmt.Sprintf("%ds", 2+c.Rand.Intn(4))})
	default:
		makeTree(c, p, o.Key)
	}
}

// expiry of a token, as a time of the run; 0: it has ended, or the run is over.
func expiry(c *Client, text string) int64 {
	r := c.Root(cluster.Request{Method: "POST", Path: "/v1/auth/token/lookup", Body: map[string]any{"token": text}})
	var shown struct {
		Data struct {
			ExpireTime time.Time `json:"expire_time"`
		}
	}
	if r == nil || r.Status != 200 || r.JSON(&shown) != nil {
		return 0
	}
	return c.Record.At(shown.Data.ExpireTime)
}

// makeExpiring makes a token that ends by itself; nil where that did not come to be in time.
func makeExpiring(c *Client, p *tokenPool, o *history.Op, by string, fields map[string]any) *token {
	t := &token{key: o.Key, kind: o.Text}
	if t.text = newToken(c, by, fields); t.text == "" {
		return nil
	}
	if o.Value = expiry(c, t.text); o.Value == 0 {
		return nil
	}
	o.Return = c.Record.Now()
	if o.Values != nil {
		t.life = life{ttl: o.Values[0], expires: o.Value, left: c.Rand.Intn(renewalsMost)}
	}
	c.Done(o)
	p.add(t)
	return t
}

// makeTree: a token, its child and the child's child; and a batch token of one of them.
func makeTree(c *Client, p *tokenPool, root string) {
	var tree []*token
	by := ""
	for depth := range treeDepth {
		began := c.Record.Now()
		if by = newToken(c, by, map[string]any{"ttl": "1h", "policies": []string{"root"}}); by == "" {
			return
		}
		key := fmt.Sprintf("%s.%d", root, depth)
		tree = append(tree, &token{key: key, text: by, kind: judge.Tree})
		c.Done(&history.Op{Process: c.ID, F: "create", Key: key, Type: history.OK, Text: judge.Tree,
			Names: []string{root}, Invoke: began, Return: c.Record.Now()})
	}
	if t := makeLeaf(c, p, root, tree[c.Rand.Intn(len(tree))]); t != nil {
		tree = append(tree, t)
	}
	for _, t := range tree[:treeDepth] {
		t.tree = tree
	}
	p.add(tree[:treeDepth]...)
}

func selfLookup(t *token) cluster.Request {
	return cluster.Request{Method: "GET", Path: "/v1/auth/token/lookup-self", Token: t.text}
}

func useToken(c *Client, p *tokenPool, t *token, n *cluster.Node) {
	q := selfLookup(t)
	if t.kind == judge.Tree && c.Rand.Intn(2) == 0 {
		q = cluster.Request{Method: "PUT", Path: "/v1/tokens/x", Body: c.secret(c.Unique()), Token: t.text}
	}
	o := &history.Op{F: "use", Key: t.key}
	r := c.Do(o, n, q)
	tokenDone(c, p, t, o, r)
}

func tokenDone(c *Client, p *tokenPool, t *token, o *history.Op, r cluster.Reply) {
	switch {
	case r.Known() && (r.Status == 200 || r.Status == 204):
		o.Value = 1
	case r.Known() && r.Status == 403:
		if t.kind != judge.Tree { // a whole tree ends, by its revocation
			p.end(t)
		}
	case r.Known():
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}

func revokeTree(c *Client, p *tokenPool, t *token) {
	root := t.tree[0]
	name := root.key[:len(root.key)-len(".0")]
	for !c.Stopped() {
		o := &history.Op{F: "revoke", Key: name}
		r := c.Do(o, nil, cluster.Request{Method: "POST", Path: "/v1/auth/token/revoke", Body: map[string]any{"token": root.text}})
		if r.Known() && r.Status != 204 {
			c.Wrong(o, r)
			return
		}
		if r.NeverSent() {
			continue
		}
		c.Done(o)
		if r.Known() {
			break
		}
	}
	p.end(t.tree...)
	for _, each := range t.tree {
		useToken(c, p, each, nil)
	}
}
