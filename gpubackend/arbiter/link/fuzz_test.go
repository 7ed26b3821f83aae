// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// FuzzRequest: any message, with any number of descriptors, is refused or is a request that can be
// sent again. Only descriptors that were asked for stay open, figures are within their bounds, and
// the next message is read.
func FuzzRequest(f *testing.F) {
	b, _ := json.Marshal(&Request{Version: Version, Kind: Join, Name: "a",
		GPUs: []GPU{{Name: "soft", Memory: 1}}, Policy: map[string]string{"share": "2"}})
	f.Add(b, 3, 3)
	f.Add(b, 2, 3)
	f.Add(b, 3, 0)
	f.Add([]byte(`{"kind":"figures","figures":{"processes":[{"name":"\u001b[31m"}],`+
		`"memory":{"\n":1}}}`), 0, 0)
	f.Add([]byte(`{"version":"one"}`), 1, 1)
	f.Add([]byte("[]"), 3, 1)
	f.Fuzz(func(t *testing.T, b []byte, files, wanted int) {
		if len(b) == 0 || len(b) > 1<<16 || files < 0 || files > 250 || wanted < 0 ||
			wanted > maxFiles {
			return
		}
		client, server := pair(t)
		before := leaks.Descriptors(t)
		var rights []byte
		if files > 0 {
			rights = unix.UnixRights(make([]int, files)...)
		}
		if _, _, err := client.c.WriteMsgUnix(b, rights, nil); err != nil {
			t.Fatal(err)
		}
		var r Request
		fds, err := server.Receive(&r, wanted)
		switch {
		case err != nil && (fds != nil || !errors.Is(err, ErrMessage)):
			t.Errorf("%v, %v", fds, err)
		case err == nil && len(fds) != 0 && (len(fds) != wanted || len(fds) != files):
			t.Errorf("%d descriptors of %d, want %d", len(fds), files, wanted)
		}
		CloseFiles(fds)
		if n := leaks.Descriptors(t); n != before {
			t.Errorf("%d descriptors, not %d", n, before)
		}
		if err == nil {
			resent(t, client, server, &r)
		}
		if err := client.Send(&Request{Kind: List}); err != nil {
			t.Fatal(err)
		}
		var next Request
		if _, err := server.Receive(&next, 0); err != nil || next.Kind != List {
			t.Errorf("the next is %+v, %v", next, err)
		}
	})
}

// resent sends a received request again, and compares what arrives. It may be too long to send.
func resent(t *testing.T, client, server *Conn, r *Request) {
	t.Helper()
	if r.Figures != nil {
		r.Figures.Clean()
		n := len(r.Figures.Processes)
		if n > maxProcesses || len(r.Figures.Memory) > maxKinds ||
			len(r.Figures.Counters) > maxCounters {
			t.Errorf("%d processes, %d kinds, %d counters", n, len(r.Figures.Memory),
				len(r.Figures.Counters))
		}
	}
	if client.Send(r) != nil {
		return
	}
	var got Request
	if _, err := server.Receive(&got, 0); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(r)
	have, _ := json.Marshal(&got)
	if !bytes.Equal(want, have) {
		t.Errorf("%s, sent as %s", have, want)
	}
}
