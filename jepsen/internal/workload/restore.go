package workload

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// restore: in rounds, five clients write and read a secret and a policy, the latter by what a token of it
// may do, while one saves the state of the cluster and puts it back, also that of the round before.
var restore = &Workload{
	Name:  "restore",
	Does:  "save and restore of the whole state while a secret and a policy are written and read",
	Judge: judge.Restore,
	Least: 10,
	Setup: func(e *Env) error {
		round := &restoreRound{}
		e.Shared = round
		if err := mount(e, "kept", "1"); err != nil {
			return err
		}
		r, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/auth/token/create",
			Body: map[string]any{"policies": []string{keptPolicy}, "ttl": "1h"}})
		if err != nil {
			return err
		}
		var made struct {
			Auth struct {
				ClientToken string `json:"client_token"`
			}
		}
		err = r.JSON(&made)
		round.token = made.Auth.ClientToken
		return err
	},
	Run: func(c *Client) {
		if c.ID > 0 {
			return // the first has clients of its own
		}
		users := make([]*Client, restoreUsers)
		for i := range users {
			users[i] = NewClient(c.Env, 100+i, c.Rand.Int63())
			defer users[i].Close()
		}
		saved := &snapshotSaved{}
		for !c.Stopped() {
			saved = runRestoreRound(c, users, saved)
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		key := c.Shared.(*restoreRound).name()
		for i := range judge.RestoreKeys {
			o := &history.Op{F: "read", Key: key, Version: int64(i)}
			r, err := c.Settled(o, n, keptRead(c, o))
			if err != nil {
				return err
			}
			keptDone(c, o, r)
		}
		return nil
	},
}

const (
	restoreUsers   = 5
	restoreUses    = 8 // of each in a round: long rounds make the judgement dear
	restoreTimeout = 5 * time.Second
	snapshotPath   = "/v1/sys/storage/raft/snapshot"
)

// restoreRound is the newest round.
type restoreRound struct {
	token string // with keptPolicy

	mu  sync.Mutex
	now string
}

func (r *restoreRound) name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *restoreRound) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = name
}

type snapshotSaved struct {
	id      int64
	archive []byte
}

// The values of a round: a secret of its own, and the only rule of a policy, which all rounds share.
const (
	keptSecret = iota
	keptRule
)

const keptPolicy = "kept"

func keptRead(c *Client, o *history.Op) cluster.Request {
	if o.Version == keptRule {
		return cluster.Request{Method: "GET", Path: "/v1/sys/internal/ui/resultant-acl", Token: c.Shared.(*restoreRound).token}
	}
	return cluster.Request{Method: "GET", Path: "/v1/kept/" + o.Key}
}

// rulePath is what the policy allows while it has this value of this round.
func rulePath(o *history.Op, value any) string { return fmt.Sprintf("kept/%s/open-%v", o.Key, value) }

func keptWrite(c *Client, o *history.Op) cluster.Request {
	if o.Version == keptRule {
		return cluster.Request{Method: "PUT", Path: "/v1/sys/policies/acl/" + keptPolicy,
			Body: map[string]any{"policy": fmt.Sprintf(`path "%s" { capabilities = ["read"] }`, rulePath(o, o.Arg))}}
	}
	return cluster.Request{Method: "PUT", Path: "/v1/kept/" + o.Key, Body: c.secret(o.Arg)}
}

// keptValue that a reply shows; what another round wrote counts as nothing.
func keptValue(o *history.Op, r cluster.Reply) (value int64, err error) {
	if o.Version == keptRule {
		_, rest, here := strings.Cut(string(r.Body), rulePath(o, ""))
		if here {
			_, err = fmt.Sscanf(rest, "%d", &value)
		}
		return value, err
	}
	var body struct{ Data struct{ V int64 } }
	err = r.JSON(&body)
	return body.Data.V, err
}

// runRestoreRound returns the last snapshot of it, `before` if there was none.
func runRestoreRound(c *Client, users []*Client, before *snapshotSaved) *snapshotSaved {
	key := fmt.Sprintf("r%d", c.Unique())
	c.Shared.(*restoreRound).begin(key)
	var over atomic.Bool
	var all sync.WaitGroup
	for _, user := range users {
		all.Add(1)
		go func() {
			defer all.Done()
			for range restoreUses {
				if over.Load() || !useKept(user, key) {
					return
				}
				sleep(20 + user.Rand.Intn(60))
			}
		}()
	}
	last := before
	for range 2 {
		sleep(30 + c.Rand.Intn(70))
		choice := []*snapshotSaved{last}
		if made := saveState(c, key); made != nil {
			choice, last = append(choice, made, made), made
		}
		sleep(30 + c.Rand.Intn(70))
		if chosen := choice[c.Rand.Intn(len(choice))]; chosen.archive != nil {
			restoreState(c, key, chosen)
		}
	}
	sleep(30 + c.Rand.Intn(70))
	over.Store(true)
	all.Wait()
	return last
}

// useKept reads or writes a value; false after a write of unknown outcome: many of those in a round
// would make the judgement dear.
func useKept(c *Client, key string) bool {
	o := &history.Op{F: "read", Key: key, Version: int64(c.Rand.Intn(judge.RestoreKeys))}
	if c.Rand.Intn(2) == 0 {
		keptDone(c, o, c.Do(o, nil, keptRead(c, o)))
		return true
	}
	o.F, o.Arg = "write", c.Unique()
	r := c.Do(o, nil, keptWrite(c, o))
	if r.Known() && r.Status != 204 {
		c.Wrong(o, r)
		return true
	}
	c.Done(o)
	return o.Type != history.Info
}

func keptDone(c *Client, o *history.Op, r cluster.Reply) {
	if r.Known() && !(o.Version == keptSecret && r.Status == 404) {
		value, err := keptValue(o, r)
		if r.Status != 200 || err != nil {
			c.Wrong(o, r)
			return
		}
		o.Value = value
	}
	c.Done(o)
}

// saveState makes a snapshot; nil where it did not come whole.
func saveState(c *Client, key string) *snapshotSaved {
	o := &history.Op{F: "save", Key: key, Arg: c.Unique()}
	r := c.Do(o, nil, cluster.Request{Method: "GET", Path: snapshotPath, Timeout: restoreTimeout})
	if r.Known() && r.Status != 200 {
		c.Wrong(o, r)
		return nil
	}
	c.Done(o)
	if !r.Known() {
		return nil
	}
	return &snapshotSaved{o.Arg, r.Body}
}

// restoreState puts a snapshot back. A refusal that says so has changed nothing.
func restoreState(c *Client, key string, s *snapshotSaved) {
	o := &history.Op{F: "restore", Key: key, Arg: s.id}
	r := c.Do(o, nil, cluster.Request{Method: "POST", Path: snapshotPath, Body: s.archive, Timeout: restoreTimeout})
	switch {
	case strings.Contains(string(r.Body), "nothing was changed"):
		o.Type, o.Return = history.Fail, c.Record.Now()
	case r.Known() && r.Status != 204:
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}
