package cluster

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"
)

// TestARelayHoldsBackWhatACutLinkWouldLose: a process opens a connection through the relay of another node.
func TestARelayHoldsBackWhatACutLinkWouldLose(t *testing.T) {
	s := &Sandbox{Loopback: true, links: &links{cuts: make([][]Cut, 1)}, residents: &residents{nodes: map[int]*Node{}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port, err := s.openRelay(&Node{Number: 2, clusterPort: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Rules([]Cut{{From: 1, To: 2}}); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("sleep 0.1; exec 3<>/dev/tcp/127.0.0.1/%d; echo there >&3; read -r word <&3; test \"$word\" = back", port)
	opener := exec.Command("bash", "-c", script)
	if err := opener.Start(); err != nil {
		t.Fatal(err)
	}
	s.residents.add(&Node{Number: 1, process: opener})
	coming := make(chan *net.TCPConn)
	go func() {
		if c, err := l.Accept(); err == nil {
			coming <- c.(*net.TCPConn)
		}
	}()
	select {
	case <-coming:
		t.Fatal("the connection passes a link that is cut")
	case <-time.After(500 * time.Millisecond):
	}
	if err := s.Rules([]Cut{{From: 2, To: 1}}); err != nil {
		t.Fatal(err)
	}
	c := <-coming
	defer c.Close()
	room := make([]byte, 6)
	if _, err := io.ReadFull(c, room); err != nil || string(room) != "there\n" {
		t.Fatalf("%q came: %v", room, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- opener.Wait() }()
	if _, err := c.Write([]byte("back\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the answer passes a link that is cut: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := s.Rules(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("the opener got another answer: %v", err)
	}
}

func TestAStrangersConnectionEndsAtTheRelay(t *testing.T) {
	s := &Sandbox{Loopback: true, links: &links{cuts: make([][]Cut, 1)}, residents: &residents{nodes: map[int]*Node{}}}
	port, err := s.openRelay(&Node{Number: 1, clusterPort: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes came", n)
	}
}
