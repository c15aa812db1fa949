package workload

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// tokens: users share tokens that expire, have a number of uses, or are revoked with their tree, and
// use each of them through all nodes at once.
var tokens = &Workload{
	Name:  "tokens",
	Does:  "time to live, number of uses, trees and their revocation",
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
			default:
				kind := []string{judge.Brief, judge.Limited, judge.Tree}[c.Rand.Intn(3)]
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

const (
	liveMax     = 16
	finalTokens = 100
)

// usesLeast of the tokens of each kind must have been accepted during the run, and as many refused.
const usesLeast = 10

func tokenKinds(h *history.History) map[string]int {
	kinds, of := map[string]int{}, map[string]string{}
	for _, kind := range []string{judge.Brief, judge.Limited, judge.Tree} {
		kinds[kind+" used"], kinds[kind+" refused"] = 0, 0
	}
	for _, o := range h.Ops {
		switch {
		case o.Type != history.OK || o.Final:
		case o.F == "create":
			of[o.Key] = o.Text
		case o.F == "use":
			kinds[of[o.Key]+[]string{" refused", " used"}[o.Value]]++
		}
	}
	return kinds
}

type token struct {
	key, text, kind string
	ended           bool
	tree            []*token
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
	switch c.Rand.Intn(3) {
	case 0:
		makeBrief(c, p, o)
	case 1:
		o.Text, o.Arg = judge.Limited, 1+c.Rand.Int63n(24)
		if text := newToken(c, "", map[string]any{"ttl": "1h", "num_uses": o.Arg}); text != "" {
			o.Return = c.Record.Now()
			c.Done(o)
			p.add(&token{key: o.Key, text: text, kind: judge.Limited})
		}
	default:
		makeTree(c, p, o.Key)
	}
}

func makeBrief(c *Client, p *tokenPool, o *history.Op) {
	o.Text = judge.Brief
	text := newToken(c, "", map[string]any{"ttl": fmt.Sprintf("%ds", 2+c.Rand.Intn(4))})
	if text == "" {
		return
	}
	r := c.Root(cluster.Request{Method: "POST", Path: "/v1/auth/token/lookup", Body: map[string]any{"token": text}})
	var shown struct {
		Data struct {
			ExpireTime time.Time `json:"expire_time"`
		}
	}
	if r == nil || r.Status != 200 || r.JSON(&shown) != nil {
		return // it has ended while no node answered
	}
	o.Value, o.Return = c.Record.At(shown.Data.ExpireTime), c.Record.Now()
	c.Done(o)
	p.add(&token{key: o.Key, text: text, kind: judge.Brief})
}

// makeTree: a token, its child and the child's child.
func makeTree(c *Client, p *tokenPool, root string) {
	var tree []*token
	by := ""
	for depth := range 3 {
		began := c.Record.Now()
		if by = newToken(c, by, map[string]any{"ttl": "1h", "policies": []string{"root"}}); by == "" {
			return
		}
		key := fmt.Sprintf("%s.%d", root, depth)
		tree = append(tree, &token{key: key, text: by, kind: judge.Tree})
		c.Done(&history.Op{Process: c.ID, F: "create", Key: key, Type: history.OK, Text: judge.Tree,
			Names: []string{root}, Invoke: began, Return: c.Record.Now()})
	}
	for _, t := range tree {
		t.tree = tree
	}
	p.add(tree...)
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
		if t.kind != judge.Tree {
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
