// SPDX-License-Identifier: Apache-2.0

package children

import (
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/starter"
)

// TestStarterEndsBeforeTheKeeper: when the VM is gone the starter process sees its connection end,
// though the keeper, which holds it for the next device process, still runs.
func TestStarterEndsBeforeTheKeeper(t *testing.T) {
	kept := keepertest.Store{}
	defer kept.Close()
	r, _, err := remains.New(kept, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	conn, far, err := socket.Connect(socket.Packets)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	r.KeepFile(remains.Starter, conn)
	d := newDistant(starter.NewClient(conn), r, &childFiles{remains: r})
	d.end(nil)
	d.watch(logrus.NewEntry(logrus.New()))
	its := []unix.PollFd{{Fd: int32(far.Fd()), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(its, 10_000)
	for err == unix.EINTR {
		n, err = unix.Poll(its, 10_000)
	}
	if n != 1 || err != nil {
		t.Errorf("the connection is still open: %d, %v", n, err)
	}
}
