package workload

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// life of a token that is renewed: by one client at a time, so that the expire_time that is read behind a
// renewal is that of the renewal.
type life struct {
	mu      sync.Mutex
	ttl     int64
	expires int64 // as far as it is known
	left    int   // renewals; then the token ends
}

const renewalsMost = 8

// makeRenewed: each renewal gives its time to live again, up to the longest life.
func makeRenewed(c *Client, p *tokenPool, o *history.Op) {
	ttl := 2 + c.Rand.Int63n(7)
	longest := ttl * (2 + c.Rand.Int63n(3))
	o.Text, o.Values = judge.Renewed, []int64{ttl * int64(time.Second), longest * int64(time.Second)}
	makeExpiring(c, p, o, "", map[string]any{"ttl": fmt.Sprintf("%ds", ttl), "explicit_max_ttl": fmt.Sprintf("%ds", longest)})
}

// makePeriodic: each renewal gives the period, which is not the time to live that was asked for.
func makePeriodic(c *Client, p *tokenPool, o *history.Op) {
	period := 2 + c.Rand.Int63n(7)
	o.Text, o.Values = judge.Periodic, []int64{period * int64(time.Second)}
	makeExpiring(c, p, o, "", map[string]any{"ttl": "1s", "period": fmt.Sprintf("%ds", period)})
}

// makeLeaf of a tree, which needs no revocation of its own: a batch token that ends with the tree, or one
// without a parent, which does not.
func makeLeaf(c *Client, p *tokenPool, root string, by *token) *token {
	o := &history.Op{F: "create", Process: c.ID, Type: history.OK, Invoke: c.Record.Now(), Text: judge.Batch}
	o.Key, o.Names = by.key+".batch", []string{root}
	fields := map[string]any{"type": "batch", "policies": []string{"default"}, "ttl": "1h"}
	if c.Rand.Intn(2) == 0 {
		o.Key, o.Names = by.key+".orphan", nil
		fields["no_parent"] = true
	}
	return makeExpiring(c, p, o, by.text, fields)
}

// due token of a kind, one that has less than two thirds of its time left; nil if there is none. The
// caller unlocks its life.
func due(c *Client, p *tokenPool, kind string) *token {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.live {
		if t.kind != kind || !t.life.mu.TryLock() {
			continue
		}
		if t.life.left > 0 && c.Record.Now() > t.life.expires-t.life.ttl*2/3 {
			t.life.left--
			return t
		}
		t.life.mu.Unlock()
	}
	return nil
}

// renewOne token: one that is due, one that has ended, or one that is never renewed.
func renewOne(c *Client, p *tokenPool) {
	kind := []string{judge.Renewed, judge.Periodic, judge.Batch}[c.Rand.Intn(3)]
	ended := c.Rand.Intn(10) == 0
	if kind != judge.Batch && !ended {
		if t := due(c, p, kind); t != nil {
			renewToken(c, p, t)
			t.life.mu.Unlock()
		}
	} else if t := p.pick(c.Rand, kind, ended); t != nil && t.life.mu.TryLock() {
		renewToken(c, p, t)
		t.life.mu.Unlock()
	}
}

func renewToken(c *Client, p *tokenPool, t *token) {
	o := &history.Op{F: "renew", Key: t.key}
	r := c.Do(o, nil, cluster.Request{Method: "POST", Path: "/v1/auth/token/renew-self", Body: map[string]any{}, Token: t.text})
	switch {
	case !r.Known() || r.Status == 403:
		tokenDone(c, p, t, o, r)
		return
	case r.Status == 400 && t.kind == judge.Batch && strings.Contains(string(r.Body), "batch tokens cannot be renewed"):
		o.Value = judge.NotRenewable
	case r.Status != 200:
		c.Wrong(o, r)
		return
	default:
		if o.Value = expiry(c, t.text); o.Value == 0 { // it has ended meanwhile, at an unknown time
			o.Type, o.Return = history.Info, history.Open
			break
		}
		t.life.expires, o.Return = o.Value, c.Record.Now()
	}
	c.Done(o)
}
