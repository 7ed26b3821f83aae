// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The numbers of libvirt's protocol.
const (
	remoteProgram = 0x20008086
	qemuProgram   = 0x20008087

	authList = 66
	open     = 1
	lookup   = 23

	command  = 1
	register = 4
	event    = 6
)

// header stands before each message, behind the length.
type header struct {
	Program, Version, Procedure, Type uint32
	Serial                            int32
	Status                            uint32
}

// fakeDaemon answers as libvirt's does, of one domain.
type fakeDaemon struct {
	t       *testing.T
	refuses map[uint32]libvirtError // procedures
	id      int32                   // the domain's; -1: it doesn't run
	qmp     func(command string) (answer string, event string)
}

type libvirtError struct {
	code    uint32
	message string
}

// listen makes the daemon the one of this user.
func (f *fakeDaemon) listen() {
	f.t.Helper()
	dir := f.t.TempDir()
	f.t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Mkdir(filepath.Join(dir, "libvirt"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "libvirt", "libvirt-sock"))
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.serve(c)
		}
	}()
	f.t.Cleanup(func() { l.Close(); <-done })
}

// serve answers until the other side hangs up.
func (f *fakeDaemon) serve(c net.Conn) {
	defer c.Close()
	for {
		var length uint32
		var h header
		if binary.Read(c, binary.BigEndian, &length) != nil ||
			binary.Read(c, binary.BigEndian, &h) != nil {
			return
		}
		payload := make([]byte, int(length)-4-binary.Size(h))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		f.answer(c, h, payload)
	}
}

func send(c io.Writer, h header, payload []byte) {
	_ = binary.Write(c, binary.BigEndian, uint32(4+binary.Size(h)+len(payload)))
	_ = binary.Write(c, binary.BigEndian, h)
	_, _ = c.Write(payload)
}

// xdr encodes numbers and strings.
func xdr(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		s, text := v.(string)
		if !text {
			_ = binary.Write(&b, binary.BigEndian, v)
			continue
		}
		_ = binary.Write(&b, binary.BigEndian, uint32(len(s)))
		b.WriteString(s + "\x00\x00\x00"[:(4-len(s)%4)%4])
	}
	return b.Bytes()
}

const name = "training"

func (f *fakeDaemon) answer(c net.Conn, h header, payload []byte) {
	domain := xdr(name, [16]byte{7}, f.id)
	h.Type = 1
	if e, ok := f.refuses[h.Procedure]; ok {
		h.Status = 1
		send(c, h, xdr(e.code, uint32(0), uint32(1), e.message, uint32(2)))
		return
	}
	switch [2]uint32{h.Program, h.Procedure} {
	case [2]uint32{remoteProgram, authList}:
		send(c, h, xdr(uint32(1), uint32(0)))
	case [2]uint32{remoteProgram, lookup}:
		if asked := payload[4:]; !bytes.HasPrefix(asked, []byte(name)) {
			h.Status = 1
			send(c, h, xdr(uint32(42), uint32(0), uint32(1), "Domain not found", uint32(2)))
			return
		}
		send(c, h, domain)
	case [2]uint32{qemuProgram, register}:
		send(c, h, xdr(int32(5)))
	case [2]uint32{qemuProgram, command}:
		rest := payload[len(domain):]
		n := binary.BigEndian.Uint32(rest)
		said, happened := f.qmp(string(rest[4 : 4+n]))
		send(c, h, xdr(said))
		if happened != "" {
			e := append(xdr(int32(5)), domain...)
			e = append(e, xdr("DEVICE_DELETED", uint64(1), uint32(2), uint32(1), happened)...)
			send(c, header{Program: qemuProgram, Version: 1, Procedure: event, Type: 2}, e)
		}
	default: // to open, and to close
		send(c, h, nil)
	}
}
