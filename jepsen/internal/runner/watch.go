package runner

import (
	"fmt"
	"sort"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/workload"
)

// prober writes through each node all the time, to know when the cluster takes writes. What it does
// is no part of the history.
type prober struct {
	env  *workload.Env
	mu   sync.Mutex
	good []span // acknowledged writes
	end  chan struct{}
	all  sync.WaitGroup
}

type span struct{ invoke, back int64 }

const probePath = "/v1/probe/x"

func startProber(e *workload.Env) (*prober, error) {
	p := &prober{env: e, end: make(chan struct{})}
	ask := e.Cluster.Client()
	defer ask.Close()
	r := ask.Do(e.Cluster.Nodes[0], cluster.Request{Method: "POST", Path: "/v1/sys/mounts/probe", Body: map[string]any{"type": "kv"}})
	if r.Status != 204 {
		return nil, fmt.Errorf("mount of the prober: %s", r.What())
	}
	for _, n := range e.Cluster.Nodes {
		p.all.Add(1)
		go p.run(n)
	}
	return p, nil
}

func (p *prober) run(n *cluster.Node) {
	defer p.all.Done()
	ask := p.env.Cluster.Client()
	defer ask.Close()
	for {
		select {
		case <-p.end:
			return
		case <-time.After(30 * time.Millisecond):
		}
		s := span{invoke: p.env.Record.Now()}
		r := ask.Do(n, cluster.Request{Method: "PUT", Path: probePath, Body: map[string]any{"v": 1}, Timeout: 500 * time.Millisecond})
		s.back = p.env.Record.Now()
		if r.Status == 204 {
			p.mu.Lock()
			p.good = append(p.good, s)
			p.mu.Unlock()
		}
	}
}

func (p *prober) stop() {
	close(p.end)
	p.all.Wait()
	sort.Slice(p.good, func(i, j int) bool { return p.good[i].back < p.good[j].back })
}

// longestGap without an acknowledged write between two times.
func (p *prober) longestGap(from, to int64) (longest int64) {
	last := from
	for _, s := range p.good {
		if s.back > last && s.back <= to {
			longest = max(longest, s.back-last)
			last = s.back
		}
	}
	return max(longest, to-last)
}

// await a write that begins from now on and is acknowledged, as long as one may take after a fault.
func (p *prober) await() {
	began := p.env.Record.Now()
	for p.env.Record.Now() < began+int64(backWithin) {
		p.mu.Lock()
		back := p.firstAfter(began)
		p.mu.Unlock()
		if back != history.Open {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// firstAfter is when the first write was acknowledged that began after this time; history.Open if none.
func (p *prober) firstAfter(at int64) int64 {
	first := int64(history.Open)
	for _, s := range p.good {
		if s.invoke >= at {
			first = min(first, s.back)
		}
	}
	return first
}

// watcher sees elections as they happen, and when the machine stood still.
type watcher struct {
	record    *history.Recorder
	cluster   *cluster.Cluster
	elections []int64
	stalls    []span
	end       chan struct{}
	all       sync.WaitGroup
}

const stallLeast = 100 * time.Millisecond

func startWatcher(record *history.Recorder, c *cluster.Cluster) *watcher {
	w := &watcher{record: record, cluster: c, end: make(chan struct{})}
	w.all.Add(2)
	go w.watchElections(c.Elections())
	go w.watchStalls()
	return w
}

func (w *watcher) ticks(every time.Duration, do func()) {
	defer w.all.Done()
	for {
		select {
		case <-w.end:
			return
		case <-time.After(every):
			do()
		}
	}
}

func (w *watcher) watchElections(known int) {
	w.ticks(200*time.Millisecond, func() {
		for now := w.cluster.Elections(); known < now; known++ {
			w.elections = append(w.elections, w.record.Now())
		}
	})
}

func (w *watcher) watchStalls() {
	last := w.record.Now()
	w.ticks(10*time.Millisecond, func() {
		now := w.record.Now()
		if time.Duration(now-last) > stallLeast {
			w.stalls = append(w.stalls, span{last, now})
		}
		last = now
	})
}

func (w *watcher) stop() {
	close(w.end)
	w.all.Wait()
}

// stalled is how long the machine stood still between two times.
func (w *watcher) stalled(from, to int64) (total int64) {
	for _, s := range w.stalls {
		total += max(0, min(s.back, to)-max(s.invoke, from))
	}
	return total
}
