package workload

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// watch: policies of the registry change in bursts while requests on every node wait for the changes.
// A policy is quiet after its last change: a watcher that missed the change waits until its time is
// over, and nothing else wakes it.
var watch = &Workload{
	Name:  "watch",
	Does:  "blocking queries of the registry: policies by name and their list, and a long list of tokens, while they change",
	Judge: judge.Watch,
	Least: 10,
	Setup: func(e *Env) error {
		slots := &watchSlots{}
		e.Shared = slots
		return makeTokens(e, &slots.tokens)
	},
	Run: func(c *Client) {
		slots := c.Shared.(*watchSlots)
		switch {
		case c.ID < watchWriters:
			for !c.Stopped() {
				changePolicy(c, slots)
			}
		case c.ID < watchWriters+watchReaders:
			readPolicies(c, slots)
		case c.ID == watchWriters+watchReaders:
			changeToken(c, &slots.tokens)
		case c.ID == watchWriters+watchReaders+1:
			watchAtOnce(c, tokenWatchers, func(user *Client, i int) { watchTokens(user, &slots.tokens, i, lastNode(c)) })
		default:
			node := c.Cluster.Nodes[c.ID%max(1, len(c.Cluster.Nodes)-1)] // not the last one
			watchAtOnce(c, watchWriters, func(user *Client, i int) { watchSlot(user, slots, i, node) })
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		slots := c.Shared.(*watchSlots)
		last := &history.Op{F: "watch", Key: judge.EveryToken}
		r, err := c.Settled(last, n, policyRequest("GET", c, "tokens", nil))
		if err != nil {
			return err
		}
		tokensDone(c, &slots.tokens, last, r)
		for _, name := range slots.every() {
			o := &history.Op{F: "watch", Key: name}
			r, err := c.Settled(o, n, policyRequest("GET", c, "policy/name/"+name, nil))
			if err != nil {
				return err
			}
			policyDone(c, o, r)
		}
		return nil
	},
}

// watchAtOnce lets some watchers go at once, each with a connection of its own.
func watchAtOnce(c *Client, count int, watch func(*Client, int)) {
	var all sync.WaitGroup
	for i := range count {
		user := NewClient(c.Env, 100*(c.ID+1)+i, c.Rand.Int63())
		all.Add(1)
		go func() {
			defer all.Done()
			defer user.Close()
			watch(user, i)
		}()
	}
	all.Wait()
}

// lastNode has no watchers but those of the tokens: else others make it look at all changes.
func lastNode(c *Client) *cluster.Node { return c.Cluster.Nodes[len(c.Cluster.Nodes)-1] }

const (
	watchWriters = 4 // each with one policy at a time
	watchReaders = 2
	lastTwo      = 40 // ms between them at most
	watchWait    = 20 * time.Second
	watchAnswer  = 10 * time.Second // after the wait is over
	watchDrain   = 60 * time.Second // after the run
)

// watched is a policy with one writer.
type watched struct {
	name   string
	mu     sync.Mutex
	closed bool
	last   int64 // version of the last change, once closed
	gone   bool  // the last change was the deletion
}

func (w *watched) close(last int64, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.last, w.gone = true, last, gone
}

// seen says whether a result shows the last change.
func (w *watched) seen(o *history.Op, index int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed && ((w.gone && o.Value == 0) || (!w.gone && index >= w.last))
}

type watchSlots struct {
	mu     sync.Mutex
	now    [watchWriters]*watched
	all    []string
	tokens tokenList
}

func (s *watchSlots) put(i int, w *watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now[i] = w
	s.all = append(s.all, w.name)
}

func (s *watchSlots) get(i int) *watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[i]
}

func (s *watchSlots) every() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.all...)
}

func policyRequest(method string, c *Client, path string, body any) cluster.Request {
	return cluster.Request{Method: method, Path: "/v1/acl/" + path, Body: body, Bare: true,
		Header: map[string]string{"X-Consul-Token": c.Cluster.Token}}
}

func waitingRequest(c *Client, path string, index int64) cluster.Request {
	q := policyRequest("GET", c, path, nil)
	if index > 0 {
		q.Path += fmt.Sprintf("?index=%d&wait=%s", index, watchWait)
		q.Timeout = watchWait + watchAnswer
	}
	return q
}

// changePolicy is the life of one policy: bursts of changes, then a last change that is certain.
func changePolicy(c *Client, slots *watchSlots) {
	w := &watched{name: fmt.Sprintf("w%d", c.Unique())}
	slots.put(c.ID, w)
	id, doubt := "", false
	for range 1 + c.Rand.Intn(3) {
		if c.Stopped() {
			break
		}
		for range 1 + c.Rand.Intn(5) {
			if id != "" && c.Rand.Intn(6) == 0 {
				if !deletePolicy(c, w, id) {
					doubt = true
				}
				id = ""
			} else if got, _ := setPolicy(c, w); got != "" {
				id = got
			} else {
				doubt = true
			}
			if c.Rand.Intn(2) == 0 {
				sleep(c.Rand.Intn(30))
			}
		}
		sleep(100 + c.Rand.Intn(400))
	}
	// The last two come so soon after each other that some watchers ask again between them.
	if got, _ := setPolicy(c, w); got != "" {
		id = got
	} else {
		doubt = true
	}
	sleep(c.Rand.Intn(lastTwo))
	for deadline := time.Now().Add(watchDrain); time.Now().Before(deadline); {
		if id != "" && !doubt && c.Rand.Intn(2) == 0 && deletePolicy(c, w, id) {
			w.close(0, true)
			return
		}
		got, version := setPolicy(c, w)
		if got != "" {
			w.close(version, false)
			return
		}
		id, doubt = "", true
	}
}

// setPolicy gives the policy a new description. No id: the outcome is unknown.
func setPolicy(c *Client, w *watched) (id string, version int64) {
	o := &history.Op{F: "set", Key: w.name, Arg: c.Unique()}
	r := c.Do(o, nil, policyRequest("PUT", c, "policy/name/"+w.name,
		map[string]any{"Name": w.name, "Description": fmt.Sprint(o.Arg)}))
	if r.NeverSent() {
		return "", 0
	}
	if r.Known() {
		var made policyReply
		if r.Status != 200 || r.JSON(&made) != nil {
			c.Wrong(o, r)
			return "", 0
		}
		id, version, o.Version = made.ID, made.ModifyIndex, made.ModifyIndex
	}
	c.Done(o)
	return id, version
}

// deletePolicy says whether it is certain that the policy has gone.
func deletePolicy(c *Client, w *watched, id string) bool {
	o := &history.Op{F: "delete", Key: w.name}
	r := c.Do(o, nil, policyRequest("DELETE", c, "policy/"+id, nil))
	if r.NeverSent() {
		return false
	}
	if r.Known() {
		switch text := strings.TrimSpace(string(r.Body)); {
		case r.Status == 200 && text == "false":
			o.Type = history.Fail
		case r.Status != 200 || text != "true":
			c.Wrong(o, r)
			return false
		}
	}
	c.Done(o)
	return o.Type == history.OK
}

type policyReply struct {
	ID, Name, Description string
	ModifyIndex           int64
}

// policyDone reads a result: Version is its index, Value what the policy has, 0 if there is none.
func policyDone(c *Client, o *history.Op, r cluster.Reply) (good bool) {
	if r.Known() {
		var body policyReply
		index, err := strconv.ParseInt(r.Header.Get("X-Consul-Index"), 10, 64)
		if err != nil || (r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil)) {
			c.Wrong(o, r)
			return false
		}
		if o.Version = index; r.Status == 200 {
			_, _ = fmt.Sscan(body.Description, &o.Value) // 0: not one of ours, which the judge refuses
			if body.ModifyIndex != index || o.Value == 0 {
				c.Wrong(o, r)
				return false
			}
		}
	}
	noteSilence(c, o, r)
	c.Done(o)
	return r.Known()
}

// noteSilence marks a wait that was not answered though its connection lived.
func noteSilence(c *Client, o *history.Op, r cluster.Reply) {
	if r.Sent && o.CAS != nil && errors.Is(r.Err, os.ErrDeadlineExceeded) {
		o.Text, o.Value = judge.Unanswered, c.Record.Now()
	}
}

// watchSlot watches one policy after the other until each has seen its last change.
func watchSlot(c *Client, slots *watchSlots, slot int, node *cluster.Node) {
	var before *watched
	for {
		w := slots.get(slot)
		if w == nil || w == before {
			if c.Stopped() {
				return
			}
			sleep(20)
			continue
		}
		before = w
		watchPolicy(c, w, node)
	}
}

func watchPolicy(c *Client, w *watched, node *cluster.Node) {
	index := int64(0)
	var stopped time.Time
	for {
		o := &history.Op{F: "watch", Key: w.name}
		if index > 0 {
			given := index
			o.CAS = &given
		}
		r := c.Do(o, node, waitingRequest(c, "policy/name/"+w.name, index))
		if policyDone(c, o, r) {
			if index = o.Version; w.seen(o, index) {
				return
			}
		}
		if c.Stopped() && stopped.IsZero() {
			stopped = time.Now()
		}
		if !stopped.IsZero() && time.Since(stopped) > watchDrain {
			return
		}
	}
}

// readPolicies reads policies at once, and waits for changes of their list.
func readPolicies(c *Client, slots *watchSlots) {
	index := int64(0)
	for !c.Stopped() {
		if w := slots.get(c.Rand.Intn(watchWriters)); w != nil && c.Rand.Intn(3) > 0 {
			o := &history.Op{F: "watch", Key: w.name}
			r := c.Do(o, nil, waitingRequest(c, "policy/name/"+w.name, 0))
			policyDone(c, o, r)
			continue
		}
		o, node := &history.Op{F: "list", Key: judge.EveryPolicy}, c.Node()
		if index > 0 && node == lastNode(c) {
			node = c.Cluster.Nodes[0]
		}
		if index > 0 {
			given := index
			o.CAS = &given
		}
		q := waitingRequest(c, "policies", index)
		if index > 0 { // short: nothing may change any more
			q.Path = strings.Replace(q.Path, watchWait.String(), "500ms", 1)
		}
		r := c.Do(o, node, q)
		if policiesDone(c, o, r) {
			index = o.Version
		}
	}
}

// policiesDone: Names are the policies, Values the version of each.
func policiesDone(c *Client, o *history.Op, r cluster.Reply) bool {
	if r.Known() {
		var body []policyReply
		index, err := strconv.ParseInt(r.Header.Get("X-Consul-Index"), 10, 64)
		if err != nil || r.Status != 200 || r.JSON(&body) != nil {
			c.Wrong(o, r)
			return false
		}
		o.Version = index
		for _, each := range body {
			if each.Description != "" && strings.HasPrefix(each.Name, "w") {
				o.Names, o.Values = append(o.Names, each.Name), append(o.Values, each.ModifyIndex)
			}
		}
	}
	noteSilence(c, o, r)
	c.Done(o)
	return r.Known()
}
