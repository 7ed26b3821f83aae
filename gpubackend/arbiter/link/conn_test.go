// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (client, server *Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: path, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = Dial(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	server = New(c)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestMessagesArrive(t *testing.T) {
	client, server := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	sent := Request{Version: Version, Kind: Join, Name: "a", GPUs: []GPU{{Name: "soft"}}}
	if err := client.Send(&sent, int(r.Fd())); err != nil {
		t.Fatal(err)
	}
	var got Request
	fds, err := server.Receive(&got, 1)
	if err != nil || len(fds) != 1 || got.Name != "a" || got.Kind != Join {
		t.Fatalf("got %+v, %v, %v", got, fds, err)
	}
	CloseFiles(fds)
	if uid, err := server.User(); err != nil || int(uid) != os.Getuid() {
		t.Errorf("user %d, %v", uid, err)
	}
	client.Close()
	if _, err := server.Receive(&got, 0); err == nil {
		t.Error("a closed connection is no error")
	}
}

func TestBadMessages(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "hello", "cut short": `{"kind":"jo`, "another type": `{"version":"one"}`,
		"a list": "[]", "too long": `{"name":"` + strings.Repeat("x", maxBytes) + `"}`,
	} {
		client, server := pair(t)
		if _, _, err := client.c.WriteMsgUnix([]byte(text), nil, nil); err != nil {
			t.Fatal(err)
		}
		var got Request
		if _, err := server.Receive(&got, 0); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestUnaskedFilesAreClosed sends descriptors where none are expected.
func TestUnaskedFilesAreClosed(t *testing.T) {
	client, server := pair(t)
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	if err := client.Send(&Request{}, fds[1], fds[1]); err != nil {
		t.Fatal(err)
	}
	unix.Close(fds[1])
	var got Request
	if list, err := server.Receive(&got, 0); err != nil || list != nil {
		t.Fatalf("got %v, %v", list, err)
	}
	// With the last writer gone the pipe is at its end.
	if n, err := unix.Read(fds[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("read %d, %v: a descriptor is left open", n, err)
	}
}

func TestLongMessagesAreNotSent(t *testing.T) {
	client, _ := pair(t)
	if err := client.Send(&Request{Name: strings.Repeat("x", maxBytes)}); err == nil {
		t.Error("sent")
	}
}
