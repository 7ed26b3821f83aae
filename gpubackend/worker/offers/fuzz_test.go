// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/internal/leaks"
)

// mostFiles is how many files a message can have (Linux's SCM_MAX_FD).
const mostFiles = 253

// FuzzReceive: another worker answers with any text and any number of files, in one message or two.
// Either as many bytes as were asked for are received, with one file, or nothing is. No other file
// stays open.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), 1, 0)
	f.Add([]byte("0123456789abcdef"), 0, 0)
	f.Add([]byte("0123456789abcdef and more"), 2, 3)
	f.Add([]byte("short"), 1, 2)
	f.Add([]byte("0123456789abcdef"), mostFiles, 0)
	f.Add([]byte("0123456789abcdef"), 3, 8)
	f.Add([]byte{}, 1, 0)
	f.Fuzz(func(t *testing.T, text []byte, files, cut int) {
		if files < 0 || files > mostFiles || cut < 0 || cut > len(text) || len(text) > 1<<16 {
			return
		}
		before := leaks.Descriptors(t)
		secret := [SecretBytes]byte{7, byte(os.Getpid()), byte(os.Getpid() >> 8)}
		ended := answer(t, secret, text, files, cut)
		begun := time.Now()
		s, fd, err := Realm(0).ReceiveMemory(secret)
		if spent := time.Since(begun); spent > time.Minute {
			t.Errorf("it took %v", spent)
		}
		<-ended
		switch {
		case err == nil && (fd < 0 || len(text) < pieceBytes || files == 0):
			t.Errorf("of %d bytes and %d files came %+v, file %d", len(text), files, s, fd)
		case err == nil:
			handover.CloseFiles([]int{fd})
		case fd >= 0 || s.Bytes != 0 || s.Start != 0:
			t.Errorf("%v came with %+v, file %d", err, s, fd)
		}
		if n := leaks.Descriptors(t); n != before {
			t.Errorf("%d files are open, not %d", n, before)
		}
		if cut == 0 && len(text) >= pieceBytes && files == 1 && err != nil {
			t.Errorf("one file: %v", err)
		}
	})
}

// answer gives the first client a text, in two messages if cut isn't 0, the files with the first.
// The channel is closed at the end.
func answer(t *testing.T, secret [SecretBytes]byte, text []byte, files, cut int) chan struct{} {
	t.Helper()
	l, err := net.ListenUnix("unix", Realm(0).SocketName(Memory, secret[:]))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer l.Close()
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		said := make([]byte, SecretBytes)
		if _, err := conn.Read(said); err != nil || !bytes.Equal(said, secret[:]) {
			return
		}
		var rights []byte
		if files > 0 {
			rights = unix.UnixRights(make([]int, files)...)
		}
		if cut == 0 {
			cut = len(text)
		}
		if _, _, err := conn.WriteMsgUnix(text[:cut], rights, nil); err == nil {
			_, _ = conn.Write(text[cut:])
		}
	}()
	return ended
}
