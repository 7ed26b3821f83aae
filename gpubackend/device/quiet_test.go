// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// logLines collects what a device logs.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// listen collects what the VM's device logs from now on.
func (v *vm) listen() *logLines {
	l := &logLines{}
	v.dev.log.Logger.SetOutput(l)
	return l
}

// TestOrdinaryEndsAreNoNews: a program that ends well, and a VM that ends while one runs, leave no
// line in the log.
func TestOrdinaryEndsAreNoNews(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	said := v.listen()
	v.program(0)
	v.closeChannel(0)
	v.reap(1, 3)
	v.program(1)
	v.close()
	if text := said.String(); text != "" {
		t.Errorf("the log says:\n%s", text)
	}
}

// TestKilledWorkerIsNews: one that somebody else killed is named.
func TestKilledWorkerIsNews(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	said := v.listen()
	v.program(0)
	w := v.worker(0)
	if err := unix.Kill(pidOf(w), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.Gone()
	if text := said.String(); !strings.Contains(text, "worker ended") ||
		!strings.Contains(text, "signal: killed") {
		t.Errorf("the log says %q", text)
	}
}
