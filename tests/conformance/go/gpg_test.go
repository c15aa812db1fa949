package conformance

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// holding is the gpg key of a holder of shares, in a home of its own.
type holding struct{ home string }

func newHolder(t *testing.T) holding {
	t.Helper()
	h := holding{got(os.MkdirTemp("", "gpg-"))(t)} // short: the agent's socket lies there
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", h.home, "--kill", "all").Run()
		os.RemoveAll(h.home)
	})
	h.gpg(t, nil, "--passphrase", "", "--quick-gen-key", "holder", "future-default", "default", "never")
	return h
}

func (h holding) gpg(t *testing.T, input []byte, args ...string) []byte {
	t.Helper()
	common := []string{"--homedir", h.home, "--batch", "--no-tty", "--pinentry-mode", "loopback"}
	command := exec.Command("gpg", append(common, args...)...)
	command.Stdin = bytes.NewReader(input)
	return got(command.Output())(t)
}

func (h holding) key(t *testing.T) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(h.gpg(t, nil, "--export", "=holder"))
}

func (h holding) fingerprint(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(string(h.gpg(t, nil, "--with-colons", "--list-keys")), "\nfpr:")
	return strings.ToLower(strings.Split(after, ":")[8])
}

// read decrypts texts in base64.
func (h holding) read(t *testing.T, texts ...string) (plain []string) {
	t.Helper()
	for _, text := range texts {
		message := got(base64.StdEncoding.DecodeString(text))(t)
		plain = append(plain, string(h.gpg(t, message, "--decrypt")))
	}
	return plain
}
