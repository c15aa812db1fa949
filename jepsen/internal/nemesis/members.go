package nemesis

import (
	"errors"
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

const (
	memberPatience = 60 * time.Second // a change that has begun ends within this time
	joinPatience   = 10 * time.Second // for a node that joins while other faults happen
)

// changeMember asks nodes by chance, until the outcome is known.
func (e *Env) changeMember(what string, n *cluster.Node) error {
	ask := e.Cluster.Client()
	defer ask.Close()
	q := n.MemberChange(what)
	q.Timeout = 2 * time.Second
	for deadline := time.Now().Add(memberPatience); ; time.Sleep(20 * time.Millisecond) {
		r := ask.Do(e.Shuffled()[0], q)
		if r.Known() && cluster.Changed(what, r) {
			return nil
		}
		if (r.Known() && !cluster.MajorityNeeds(r)) || time.Now().After(deadline) {
			return fmt.Errorf("%s %s: %s", what, n.Name, r.What())
		}
	}
}

// replace removes one node for good: what comes back in its place has nothing of it but the name and
// the certificate.
var replace = &Nemesis{
	Name: "replace", Does: "one node is removed by the API; one with its name and an empty disk is admitted and joins", Acts: true,
	ChangesMembers: true, Setup: voteAtOnce,
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOneWithCopies()
		if n == nil {
			return nil, nil
		}
		if err := e.changeMember("remove-peer", n); err != nil {
			return nil, err
		}
		return &Harm{What: "removed " + n.Name, Undo: func() error {
			if err := e.changeMember("readmit", n); err != nil {
				return err
			}
			return n.Renew()
		}, Back: func() {
			defer e.giveCopiesBack()
			defer e.giveBack([]*cluster.Node{n})
			e.awaitBack([]*cluster.Node{n})
			for deadline := time.Now().Add(rejoinPatience); !everyNodeVotes(e); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					e.problem("%s has no vote %v after it was replaced", n.Name, rejoinPatience)
					return
				}
			}
			e.acted("replace")
		}}, nil
	},
}

// churn lets one more node come and go, and each other node lose its vote and get it back.
var churn = &Nemesis{
	Name: "churn", Does: "one more node joins and is removed, others lose their vote and regain it, again and again, by the API", Acts: true,
	ChangesMembers: true, Longest: 6 * time.Second, Setup: voteAtOnce,
	Options: func(o *cluster.Options) { o.Spares = max(o.Spares, 1) },
	Begin: func(e *Env) (*Harm, error) {
		if !e.takeCopies() {
			return nil, nil
		}
		end, ended := make(chan struct{}), make(chan error, 2)
		go func() { ended <- again(end, e.comeAndGo) }()
		go func() { ended <- again(end, e.loseVote) }()
		return &Harm{What: "changed members and votes again and again", Undo: func() error {
			defer e.giveCopiesBack()
			close(end)
			return errors.Join(<-ended, <-ended)
		}}, nil
	},
}

// again and again, at least once.
func again(end <-chan struct{}, do func(<-chan struct{}) error) error {
	for {
		if err := do(end); err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// rest for up to this many milliseconds, or until the end.
func (e *Env) rest(end <-chan struct{}, ms int) {
	select {
	case <-end:
	case <-time.After(time.Duration(1+e.Intn(ms)) * time.Millisecond):
	}
}

// comeAndGo of the spare node: it joins with an empty disk, serves for a while, and is removed.
func (e *Env) comeAndGo(end <-chan struct{}) error {
	n := e.Cluster.Spares[0]
	if err := e.changeMember("readmit", n); err != nil {
		return err
	}
	if err := n.Renew(); err != nil {
		return err
	}
	joined := e.awaitJoined(n)
	e.rest(end, 1000)
	if err := e.changeMember("remove-peer", n); err != nil {
		return err
	}
	if joined {
		e.acted("churn")
	}
	e.rest(end, 300)
	return n.Kill()
}

// awaitJoined waits until the node is a member with a vote, and says whether it came to that.
func (e *Env) awaitJoined(n *cluster.Node) bool {
	ask := e.Cluster.Client()
	defer ask.Close()
	for deadline := time.Now().Add(joinPatience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if e.Cluster.Voters(ask)[n.Name] {
			return true
		}
	}
	return false
}

// loseVote of one node for a while.
func (e *Env) loseVote(end <-chan struct{}) error {
	n := e.Shuffled()[0]
	if len(e.Cluster.Nodes) > 1 { // the last vote cannot be taken
		if err := e.changeMember("demote", n); err != nil {
			return err
		}
	}
	e.rest(end, 400)
	if err := e.changeMember("promote", n); err != nil {
		return err
	}
	e.rest(end, 400)
	return nil
}

func voteAtOnce(e *Env) error { return e.Cluster.VoteAtOnce() }

// everyNodeVotes, and no other one does.
func everyNodeVotes(e *Env) bool {
	ask := e.Cluster.Client()
	defer ask.Close()
	return len(e.Cluster.Voters(ask)) == len(e.Cluster.Nodes)
}
