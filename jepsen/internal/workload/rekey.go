package workload

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// share is a key share; its number is the one in the history.
type share struct {
	number int64
	text   string
}

// shares that were made so far. Those that may be in force are the last of `all`: one, or two after a
// replacement without a known outcome.
type shares struct {
	mu  sync.Mutex
	all []share
	may int
}

const (
	firstShare  = 1
	rekeysLeast = 3
	oldShares   = 5 // that are tried at the end
)

func newShares(first string) *shares { return &shares{all: []share{{firstShare, first}}, may: 1} }

// inForce are the shares that may be, the newest first.
func (s *shares) inForce() []share {
	s.mu.Lock()
	defer s.mu.Unlock()
	may := slices.Clone(s.all[len(s.all)-s.may:])
	slices.Reverse(may)
	return may
}

func (s *shares) replace(by share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.may = append(s.all, by), 2
}

// certain says that one of those that may be in force is.
func (s *shares) certain(one share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[len(s.all)-1] != one {
		s.all = s.all[:len(s.all)-1] // it never was
	}
	s.may = 1
}

func (s *shares) every() []share {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func rekeysDone(h *history.History) map[string]int {
	done := map[string]int{"new key shares": 0}
	for _, o := range h.Ops {
		if o.F == "rekey" && o.Type == history.OK {
			done["new key shares"]++
		}
	}
	return done
}

type rekeyReply struct {
	Nonce             string
	VerificationNonce string `json:"verification_nonce"`
	Complete          bool
	Keys              []string
}

const rekeyPath = "/v1/sys/rekey/"

// makeShares that become valid when the new one is given back: so a lost reply loses no share, and where
// the outcome is unknown one of two shares is in force.
func makeShares(c *Client, s *shares) {
	for _, old := range s.inForce() {
		begun, good := rekeyStep(c, "init", map[string]any{"secret_shares": 1, "secret_threshold": 1, "require_verification": true})
		if !good { // of a try whose reply was lost
			c.Root(cluster.Request{Method: "DELETE", Path: rekeyPath + "init"})
			return
		}
		made, good := rekeyStep(c, "update", map[string]any{"key": old.text, "nonce": begun.Nonce})
		if !good || len(made.Keys) != 1 {
			c.Root(cluster.Request{Method: "DELETE", Path: rekeyPath + "init"})
			continue // the other share is in force, if there are two
		}
		s.certain(old)
		putInForce(c, s, share{c.Unique() + firstShare, made.Keys[0]}, made.VerificationNonce)
		return
	}
}

// rekeyStep is not good where it was refused, or the run is over.
func rekeyStep(c *Client, step string, body map[string]any) (reply rekeyReply, good bool) {
	r := c.Root(cluster.Request{Method: "POST", Path: rekeyPath + step, Body: body})
	return reply, r != nil && r.Status == 200 && r.JSON(&reply) == nil
}

func putInForce(c *Client, s *shares, by share, nonce string) {
	s.replace(by)
	for !c.Stopped() {
		o := &history.Op{F: "rekey", Key: judge.Shares, Arg: by.number}
		r := c.Do(o, nil, cluster.Request{Method: "POST", Path: rekeyPath + "verify", Body: map[string]any{"key": by.text, "nonce": nonce}})
		if r.NeverSent() {
			continue
		}
		var reply rekeyReply
		done := r.Known() && r.Status == 200 && r.JSON(&reply) == nil && reply.Complete
		if r.Known() && !done {
			return // an earlier try may have succeeded
		}
		c.Done(o)
		if done {
			s.certain(by)
			return
		}
	}
}

// tryShares on a node that was sealed for it: the former ones first.
func tryShares(c *Client, n *cluster.Node, s *shares) error {
	c.ask.Do(n, cluster.Request{Method: "PUT", Path: "/v1/sys/seal"})
	deadline := time.Now().Add(finalPatience)
	for !isSealed(c, n) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not sealed", n.Name)
		}
		sleep(20)
	}
	all := s.every()
	for _, one := range all[max(0, len(all)-oldShares):] {
		o := &history.Op{F: "open", Key: judge.Shares, Arg: one.number, Process: c.ID, Node: n.Name, Final: true,
			Type: history.OK, Invoke: c.Record.Now()}
		r := c.Cluster.UnsealBy(c.ask, n, one.text)
		for r.Status == 503 && time.Now().Before(deadline) { // it has not learned the state yet
			sleep(50)
			r = c.Cluster.UnsealBy(c.ask, n, one.text)
		}
		o.Return, o.Status = c.Record.Now(), r.Status
		var body struct{ Sealed bool }
		switch {
		case r.Status == 200 && r.JSON(&body) == nil && !body.Sealed:
			o.Value = 1
		case r.Status != 400:
			return fmt.Errorf("%s answers a key share with %s", n.Name, r.What())
		}
		c.Done(o)
		if o.Value == 1 {
			break
		}
	}
	return c.Cluster.AwaitUp()
}
