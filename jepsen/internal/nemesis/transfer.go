package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

func stepDownActive(e *Env) bool {
	active := e.Cluster.Active()
	if active == nil {
		return false
	}
	ask := e.Cluster.Client()
	defer ask.Close()
	r := ask.Do(active, cluster.Request{Method: "PUT", Path: "/v1/sys/step-down", Body: map[string]any{}})
	return r.Status == 204
}

// stepDown moves leadership once.
var stepDown = &Nemesis{
	Name: "step-down", Does: "sys/step-down of the active node",
	Begin: func(e *Env) (*Harm, error) {
		if !stepDownActive(e) {
			return nil, nil
		}
		return &Harm{What: "stepped down", Moves: true, Undo: func() error { return nil }}, nil
	},
}

// transfer moves leadership again and again.
var transfer = &Nemesis{
	Name: "transfer", Does: "leadership moves every 0.2 s",
	Begin: func(e *Env) (*Harm, error) {
		end, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				stepDownActive(e)
				select {
				case <-end:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		}()
		return &Harm{What: "moved leadership again and again", Moves: true, Undo: func() error {
			close(end)
			<-ended
			return nil
		}}, nil
	},
}
