package cluster

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Wire carries the frames between a node and the bridge, in both directions: the kernels of the test
// machines have no netem. What is set here happens to packets between nodes; those of clients pass.
type Wire struct {
	delay     atomic.Int64 // ns
	reorder   atomic.Int32 // in a hundred packets
	duplicate atomic.Int32
	harmed    atomic.Int64
}

const (
	frameMax  = 2048
	queueMax  = 4096 // frames in each direction; more are lost
	overtaken = 3 * time.Millisecond
)

// openWire makes two TAP devices, one named `link` here and one named eth0 in the namespace.
func openWire(link, ns string) (*Wire, error) {
	near, err := openTap(link)
	if err != nil {
		return nil, err
	}
	far, err := openTap("far-" + link)
	if err != nil {
		return nil, err
	}
	if err := run("ip", "link", "set", "far-"+link, "netns", ns, "name", "eth0"); err != nil {
		return nil, err
	}
	w := &Wire{}
	go w.carry(near, far)
	go w.carry(far, near)
	return w, nil
}

func openTap(name string) (*os.File, error) {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	var request struct {
		name  [16]byte
		flags uint16
		rest  [22]byte
	}
	copy(request.name[:15], name)
	request.flags = syscall.IFF_TAP | syscall.IFF_NO_PI
	if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))); failed != 0 {
		syscall.Close(fd)
		return nil, fmt.Errorf("TAP %s: %w", name, failed)
	}
	return os.NewFile(uintptr(fd), name), nil
}

type queued struct {
	due   time.Time
	frame []byte
}

// carry frames one way until the devices go with the namespaces.
func (w *Wire) carry(from, to *os.File) {
	queue := make(chan queued, queueMax)
	go func() {
		for q := range queue {
			if wait := time.Until(q.due); wait > 0 {
				time.Sleep(wait)
			}
			_, _ = to.Write(q.frame) // a device that is down loses packets, as a link does
		}
	}()
	for {
		frame := make([]byte, frameMax)
		n, err := from.Read(frame)
		if err != nil {
			if pe, ok := err.(*os.PathError); ok && pe.Err == syscall.EIO { // the device is not up yet
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return
		}
		w.send(queue, to, frame[:n])
	}
}

func (w *Wire) send(queue chan queued, to *os.File, frame []byte) {
	q := queued{frame: frame}
	if betweenNodes(frame) {
		if delay := w.delay.Load(); delay > 0 {
			w.harmed.Add(1)
			q.due = time.Now().Add(time.Duration(delay))
		}
		if rand.Int31n(100) < w.reorder.Load() {
			w.harmed.Add(1)
			time.AfterFunc(overtaken, func() { _, _ = to.Write(frame) }) // a device that is down loses packets
			return
		}
		if rand.Int31n(100) < w.duplicate.Load() {
			w.harmed.Add(1)
			put(queue, q)
		}
	}
	put(queue, q)
}

func put(queue chan queued, q queued) {
	select {
	case queue <- q:
	default: // a full queue loses packets
	}
}

// betweenNodes says whether this is a packet of IPv4 that neither comes from the clients nor goes to
// them.
func betweenNodes(frame []byte) bool {
	const head, hub = 14, 254
	if len(frame) < head+20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return false
	}
	return frame[head+15] != hub && frame[head+19] != hub
}

// Set what happens to packets: how late they come, and how many in a hundred are overtaken or come
// twice.
func (w *Wire) Set(delay time.Duration, reorder, duplicate int32) {
	w.delay.Store(int64(delay))
	w.reorder.Store(reorder)
	w.duplicate.Store(duplicate)
}

// Harmed is how many packets were late, overtaken or doubled so far.
func (w *Wire) Harmed() int64 { return w.harmed.Load() }
