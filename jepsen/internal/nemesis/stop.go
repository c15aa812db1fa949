package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

// stop one node in order.
var stop = &Nemesis{
	Name: "stop", Does: "SIGTERM of one node, then a start", Orderly: true,
	Begin: func(e *Env) (*Harm, error) {
		return e.toProcesses("stopped", e.take(e.Shuffled(), 1), false, (*cluster.Node).Stop, (*cluster.Node).Start)
	},
}

const drainDelay = time.Second

// drain lets load balancers notice a stop: the node serves for a while, but its health is 503.
var drain = &Nemesis{
	Name: "drain", Does: "SIGTERM of one node, which serves for another second with a health of 503; then a start", Acts: true, Orderly: true,
	Options: func(o *cluster.Options) { configured(o, "drain_delay_s", drainDelay.String()) },
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOne()
		if n == nil {
			return nil, nil
		}
		ended := make(chan error, 1)
		go func() { ended <- n.Stop() }()
		ask := e.Cluster.Client()
		defer ask.Close()
		for deadline := time.Now().Add(drainDelay); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if e.healthSoon(ask, n) == 503 {
				e.acted("drain")
				break
			}
		}
		nodes := []*cluster.Node{n}
		return &Harm{What: "drained " + n.Name, Back: func() { e.awaitBack(nodes) }, Undo: func() error {
			defer e.giveBack(nodes)
			if err := <-ended; err != nil {
				return err
			}
			return n.Start()
		}}, nil
	},
}

// roll stops and starts each node, one after the other, as an upgrade does.
var roll = &Nemesis{
	Name: "roll", Does: "SIGTERM and start of each node, one after the other", Orderly: true,
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.take(e.Shuffled(), len(e.Cluster.Nodes))
		if len(nodes) < len(e.Cluster.Nodes) {
			e.giveBack(nodes)
			return nil, nil
		}
		end, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- rollOver(e, nodes, end) }()
		return &Harm{What: "rolled over" + nameOf(nodes), Moves: false, Undo: func() error {
			defer e.giveBack(nodes)
			close(end)
			return <-ended
		}}, nil
	},
}

func rollOver(e *Env, nodes []*cluster.Node, end chan struct{}) error {
	for _, n := range nodes {
		if err := n.Stop(); err != nil {
			return err
		}
		if err := n.Start(); err != nil {
			return err
		}
		ask := e.Cluster.Client()
		for deadline := time.Now().Add(time.Minute); !cluster.Serving(e.Cluster.Health(ask, n)) && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		ask.Close()
		select {
		case <-end:
			return nil
		default:
		}
	}
	<-end
	return nil
}
