package nemesis

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

func withClocks(o *cluster.Options) { o.Clocks = true }

// clock sets the wall clock of one node wrong; its monotonic clock stays right.
var clock = &Nemesis{
	Name: "clock", Does: "the wall clock of one node jumps by up to an hour to and fro (libfaketime)",
	Options: withClocks,
	Begin: func(e *Env) (*Harm, error) {
		n := e.Shuffled()[0]
		seconds := e.Intn(7200) - 3600
		if err := n.SetClock(float64(seconds)); err != nil {
			return nil, err
		}
		return &Harm{What: fmt.Sprintf("set the clock of %s by %+d s", n.Name, seconds), Undo: func() error { return n.SetClock(0) }}, nil
	},
}

// drift lets the wall clock of one node run too fast or too slow, then back at once.
var drift = &Nemesis{
	Name: "drift", Does: "the wall clock of one node runs up to twice as fast, or stands still (libfaketime)", Options: withClocks,
	Begin: func(e *Env) (*Harm, error) {
		percent := e.Intn(201) - 100
		return e.driveClock(fmt.Sprintf("clock runs %+d %% on", percent), 20*time.Millisecond, func(since time.Duration) float64 {
			return since.Seconds() * float64(percent) / 100
		})
	},
}

// strobe moves the wall clock of one node to and fro all the time.
var strobe = &Nemesis{
	Name: "strobe", Does: "the wall clock of one node jumps to and fro by some seconds every 10 ms (libfaketime)", Options: withClocks,
	Begin: func(e *Env) (*Harm, error) {
		far := 1 + e.Intn(60)
		wrong := false
		return e.driveClock(fmt.Sprintf("strobed by %d s", far), 10*time.Millisecond, func(time.Duration) float64 {
			if wrong = !wrong; wrong {
				return float64(far)
			}
			return 0
		})
	},
}

// driveClock sets the wall clock of one node again and again, by what `wrong` says.
func (e *Env) driveClock(what string, every time.Duration, wrong func(since time.Duration) float64) (*Harm, error) {
	n := e.Shuffled()[0]
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for began := time.Now(); ; {
			if err := n.SetClock(wrong(time.Since(began))); err != nil {
				ended <- err
				return
			}
			select {
			case <-end:
				ended <- n.SetClock(0)
				return
			case <-time.After(every):
			}
		}
	}()
	return &Harm{What: what + " " + n.Name, Undo: func() error {
		close(end)
		return <-ended
	}}, nil
}
