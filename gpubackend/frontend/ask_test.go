// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/vhostuser"
)

// TestAskForTheDriver: who asks is told whether the driver has the device. While a front end is
// served, others are refused, with a line in the log.
func TestAskForTheDriver(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "device")
	l, err := vhostuser.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	said := &lines{}
	log := logrus.New()
	log.SetOutput(said)
	var driver atomic.Bool
	seat := NewSeat(l, log, driver.Load)
	defer seat.Close()
	dial := func() *net.UnixConn {
		t.Helper()
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	if err := CheckFree(socket); err != nil {
		t.Errorf("nobody is served: %v", err)
	}
	first := dial()
	conn, err := seat.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := AwaitDriver(context.Background(), socket, 10*time.Millisecond); !errors.Is(err,
		ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
	if err := CheckFree(socket); !errors.Is(err, ErrServes) {
		t.Errorf("a front end is served: %v", err)
	}
	driver.Store(true)
	if err := AwaitDriver(context.Background(), socket, time.Minute); err != nil {
		t.Errorf("with a driver: %v", err)
	}
	if got := said.all(); len(got) != 1 || got[0] != "" {
		t.Errorf("a question is logged: %q", got)
	}
	for _, text := range []string{"\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", "?",
		strings.Repeat("x", 100)} {
		c := dial()
		_, _ = io.WriteString(c, text)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%q is answered", text)
		}
	}
	if got := said.all(); len(got) != 3 {
		t.Errorf("three are refused: %q", got)
	}
	_ = first.Close()
	next := dial()
	c, err := seat.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := next.Write([]byte{7}); err != nil {
		t.Error(err)
	}
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil || b[0] != 7 {
		t.Errorf("the next front end isn't served: %v", err)
	}
}
