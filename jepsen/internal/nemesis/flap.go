package nemesis

import "time"

// flap cuts one node off and on again, faster than elections are.
var flap = &Nemesis{
	Name: "flap", Does: "one node is cut off and on every 200 ms",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		cuts := between(nodes[:1], nodes[1:])
		if err := e.cut("flap", cuts); err != nil {
			return nil, err
		}
		end, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for on := true; ; on = !on {
				select {
				case <-end:
					ended <- e.cut("flap", nil)
					return
				case <-time.After(200 * time.Millisecond):
				}
				now := cuts
				if on {
					now = nil
				}
				if err := e.cut("flap", now); err != nil {
					ended <- err
					return
				}
			}
		}()
		return &Harm{What: "flapped" + nameOf(nodes[:1]), Undo: func() error {
			close(end)
			return <-ended
		}}, nil
	},
}
