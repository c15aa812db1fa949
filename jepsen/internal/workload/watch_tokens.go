package workload

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// tokenList is a list that takes long to read, in which one token changes: twice at once, so that the
// watchers that the first change woke read the list again while the second happens. Then nothing changes
// until each has seen the second. One who does not see it is woken by the next change only, too late.
type tokenList struct {
	accessor string
	seen     [tokenWatchers]atomic.Int64 // version of the token
	watching atomic.Int64
}

const (
	tokenPads     = 300 // tokens beside the one that changes
	tokenWatchers = 2   // of one node, which has no others
	tokensApart   = 12 * time.Millisecond
	tokensQuiet   = 7 * time.Second // above what a judge lets pass
)

type tokenReply struct {
	AccessorID, Description string
	ModifyIndex             int64
}

// makeTokens of which the last one changes.
func makeTokens(e *Env, l *tokenList) error {
	for range tokenPads {
		r, err := setup(e, cluster.Request{Method: "PUT", Path: "/v1/acl/token", Body: map[string]any{"Description": "0"},
			Bare: true, Header: map[string]string{"X-Consul-Token": e.Cluster.Token}})
		var made tokenReply
		if err != nil {
			return err
		}
		if err := r.JSON(&made); err != nil {
			return err
		}
		l.accessor = made.AccessorID
	}
	l.watching.Store(tokenWatchers)
	return nil
}

// setToken gives the version of the change, 0 if it is unknown.
func setToken(c *Client, l *tokenList) int64 {
	o := &history.Op{F: "set", Key: judge.EveryToken, Arg: c.Unique()}
	r := c.Do(o, nil, policyRequest("PUT", c, "token/"+l.accessor,
		map[string]any{"AccessorID": l.accessor, "Description": fmt.Sprint(o.Arg)}))
	if r.NeverSent() {
		return 0
	}
	if r.Known() {
		var made tokenReply
		if r.Status != 200 || r.JSON(&made) != nil {
			c.Wrong(o, r)
			return 0
		}
		o.Version = made.ModifyIndex
	}
	c.Done(o)
	return o.Version
}

func (l *tokenList) allSaw(version int64) bool {
	for i := range l.seen {
		if l.seen[i].Load() < version {
			return false
		}
	}
	return true
}

func changeToken(c *Client, l *tokenList) {
	second := NewClient(c.Env, 100*(c.ID+1), c.Rand.Int63())
	defer second.Close()
	for !c.Stopped() {
		pause, other := time.Duration(c.Rand.Int63n(int64(tokensApart))), make(chan int64)
		go func() {
			time.Sleep(pause)
			other <- setToken(second, l)
		}()
		one := setToken(c, l)
		newest := max(one, <-other)
		for deadline := time.Now().Add(tokensQuiet); !c.Stopped() && !l.allSaw(newest) && time.Now().Before(deadline); {
			sleep(5)
		}
		sleep(10 + c.Rand.Intn(30))
	}
	for deadline := time.Now().Add(watchDrain); l.watching.Load() > 0 && time.Now().Before(deadline); sleep(300) {
		setToken(c, l)
	}
}

func watchTokens(c *Client, l *tokenList, i int, node *cluster.Node) {
	defer l.watching.Add(-1)
	index, version := int64(0), int64(0)
	for !c.Stopped() {
		o := &history.Op{F: "watch", Key: judge.EveryToken}
		if version > 0 {
			given := version
			o.CAS = &given
		}
		if at := tokensDone(c, l, o, c.Do(o, node, waitingRequest(c, "tokens", index))); at > 0 {
			index, version = at, o.Version
			l.seen[i].Store(version)
		}
	}
}

// tokensDone gives the index of the list, 0 if there is none. Version is that of the one token: others are
// made and end.
func tokensDone(c *Client, l *tokenList, o *history.Op, r cluster.Reply) (index int64) {
	if r.Known() {
		var all []tokenReply
		var err error
		index, err = strconv.ParseInt(r.Header.Get("X-Consul-Index"), 10, 64)
		if err != nil || r.Status != 200 || r.JSON(&all) != nil {
			c.Wrong(o, r)
			return 0
		}
		for _, each := range all {
			if each.AccessorID == l.accessor {
				o.Version = each.ModifyIndex
				o.Value, _ = strconv.ParseInt(each.Description, 10, 64)
			}
		}
		if o.Value == 0 { // no client has changed it yet
			return 0
		}
	}
	noteSilence(c, o, r)
	c.Done(o)
	return index
}
