// SPDX-License-Identifier: Apache-2.0

// Package vhostusertest has the two neighbours of a vhost-user session, for tests: a Frontend that
// speaks the protocol as QEMU or User Mode Linux do, over a real socket, with real memfds and
// eventfds, and a Device that records its calls and fails the test if the session breaks a promise.
package vhostusertest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// UserBase is what the front end adds to a guest-physical address to get an address of its own.
const UserBase = 0x7f00_0000_0000

// NoFD is the flag of SET_VRING_KICK, CALL and ERR that says that no descriptor comes along.
const NoFD = 1 << 8

// Frontend is the front end's side of a session.
type Frontend struct {
	Conn *vhostuser.Conn
	Sock *net.UnixConn // for bytes that are no message

	// NeedReply makes Send ask for a reply and wait for it, as if REPLY_ACK was negotiated.
	NeedReply bool

	tb testing.TB
}

// Pair returns two connected sockets, which are closed when the test ends.
func Pair(tb testing.TB) (a, b *net.UnixConn) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatalf("socketpair: %v", err)
	}
	socks := [2]*net.UnixConn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			tb.Fatalf("socketpair: %v", err)
		}
		socks[i] = c.(*net.UnixConn)
		tb.Cleanup(func() { _ = c.Close() })
	}
	return socks[0], socks[1]
}

// NewFrontend makes a front end over a socket.
func NewFrontend(tb testing.TB, sock *net.UnixConn) *Frontend {
	return &Frontend{Conn: vhostuser.NewConn(sock, 10*time.Second), Sock: sock, tb: tb}
}

// Send sends a message, and waits for the reply if NeedReply is set. It returns an error if the
// back end refused.
func (f *Frontend) Send(r vhostuser.Request, payload []byte, fds ...int) error {
	m := &vhostuser.Message{Request: r, Flags: vhostuser.FlagVersion, Payload: payload}
	if f.NeedReply {
		m.Flags |= vhostuser.FlagNeedReply
	}
	if err := f.Write(m, fds...); err != nil || !f.NeedReply {
		return err
	}
	b, err := f.Reply(r)
	if err != nil {
		return err
	}
	if len(b) != 8 || binary.NativeEndian.Uint64(b) != 0 {
		return fmt.Errorf("%v was refused: % x", r, b)
	}
	return nil
}

// MustSend is Send for messages that the back end has to accept.
func (f *Frontend) MustSend(r vhostuser.Request, payload []byte, fds ...int) {
	f.tb.Helper()
	if err := f.Send(r, payload, fds...); err != nil {
		f.tb.Fatalf("send %v: %v", r, err)
	}
}

// Write sends any message with descriptors that stay the caller's.
func (f *Frontend) Write(m *vhostuser.Message, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := f.Sock.WriteMsgUnix(m.AppendTo(nil), oob, nil)
	return err
}

// Query sends a message that has an answer of its own, and returns the answer.
func (f *Frontend) Query(r vhostuser.Request, payload []byte) ([]byte, error) {
	m := &vhostuser.Message{Request: r, Flags: vhostuser.FlagVersion, Payload: payload}
	if err := f.Write(m); err != nil {
		return nil, err
	}
	return f.Reply(r)
}

// QueryFDs is Query for an answer with descriptors, which are closed when the test ends.
func (f *Frontend) QueryFDs(r vhostuser.Request, payload []byte) ([]byte, []int, error) {
	m := &vhostuser.Message{Request: r, Flags: vhostuser.FlagVersion, Payload: payload}
	if err := f.Write(m); err != nil {
		return nil, nil, err
	}
	answer, err := f.Conn.Read()
	if err != nil {
		return nil, nil, err
	}
	var fds []int
	for _, own := range answer.FDs {
		fd, err := own.Disown()
		if err != nil {
			return nil, nil, err
		}
		f.tb.Cleanup(func() { _ = unix.Close(fd) })
		fds = append(fds, fd)
	}
	if answer.Request != r || answer.Flags != vhostuser.FlagVersion|vhostuser.FlagReply {
		return nil, nil, fmt.Errorf("reply to %v has flags %#x, want one to %v", answer.Request,
			answer.Flags, r)
	}
	return answer.Payload, fds, nil
}

// Reply reads the reply to a request, and checks its header as QEMU does.
func (f *Frontend) Reply(r vhostuser.Request) ([]byte, error) {
	m, err := f.Conn.Read()
	if err != nil {
		return nil, err
	}
	if m.Request != r || m.Flags != vhostuser.FlagVersion|vhostuser.FlagReply {
		return nil, fmt.Errorf("reply to %v has flags %#x, want one to %v", m.Request, m.Flags, r)
	}
	return m.Payload, nil
}

// MustQuery is Query for an answer of one u64.
func (f *Frontend) MustQuery(r vhostuser.Request) uint64 {
	f.tb.Helper()
	b, err := f.Query(r, nil)
	if err != nil || len(b) != 8 {
		f.tb.Fatalf("query %v: % x, %v", r, b, err)
	}
	return binary.NativeEndian.Uint64(b)
}

// Word makes a payload of one u64.
func Word(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// DecodeInFlight reads the answer to GET_INFLIGHT_FD.
func DecodeInFlight(b []byte) vhostuser.InFlight {
	e := binary.NativeEndian
	return vhostuser.InFlight{
		Size: e.Uint64(b), Offset: e.Uint64(b[8:]), Queues: e.Uint16(b[16:]),
		QueueSize: e.Uint16(b[18:]),
	}
}

// State makes a payload of a ring index and a number.
func State(index, num uint32) []byte {
	return vhostuser.VringState{Index: index, Num: num}.AppendTo(nil)
}

// Realize sends what QEMU's generic device sends when it is made, and returns the features that
// it was offered.
func (f *Frontend) Realize(queues int) uint64 {
	f.tb.Helper()
	f.MustQuery(vhostuser.GetFeatures)
	protocol := f.MustQuery(vhostuser.GetProtocolFeatures)
	f.MustSend(vhostuser.SetProtocolFeatures, Word(protocol))
	f.MustQuery(vhostuser.GetQueueNum)
	f.MustQuery(vhostuser.GetMaxMemSlots)
	f.NeedReply = true
	_, far := Pair(f.tb)
	raw, err := far.File()
	if err != nil {
		f.tb.Fatal(err)
	}
	f.MustSend(vhostuser.SetBackendReqFD, nil, int(raw.Fd()))
	_ = raw.Close()
	f.NeedReply = false
	f.MustSend(vhostuser.SetOwner, nil)
	features := f.MustQuery(vhostuser.GetFeatures)
	f.NeedReply = true
	for i := range queues {
		fd := Eventfd(f.tb)
		f.MustSend(vhostuser.SetVringCall, Word(uint64(i)), fd)
		f.MustSend(vhostuser.SetVringErr, Word(uint64(i)), fd)
	}
	return features
}

// Regions describes a guest's spans, for SET_MEM_TABLE and ADD_MEM_REG.
func Regions(g *virtqueuetest.Guest) []vhostuser.Region {
	var out []vhostuser.Region
	for _, s := range g.Spans {
		out = append(out,
			vhostuser.Region{GuestAddr: s.Addr, Size: s.Size, UserAddr: UserBase + s.Addr})
	}
	return out
}

// AddMemory sends a guest's memory region by region.
func (f *Frontend) AddMemory(g *virtqueuetest.Guest) {
	f.tb.Helper()
	for i, r := range Regions(g) {
		f.MustSend(vhostuser.AddMemReg, vhostuser.AppendRegion(Word(0), r), g.FDs[i])
	}
}

// SetMemory sends a guest's memory as a table.
func (f *Frontend) SetMemory(g *virtqueuetest.Guest) {
	f.tb.Helper()
	f.MustSend(vhostuser.SetMemTable, vhostuser.AppendMemTable(nil, Regions(g)), g.FDs...)
}

// Queue is a ring as the front end sets it up.
type Queue struct {
	Index      int
	Driver     *virtqueuetest.Driver
	Base       uint16
	Kick, Call int // eventfds
}

// NewQueue lays out a ring in the guest.
func NewQueue(tb testing.TB, g *virtqueuetest.Guest, index int, size uint16) *Queue {
	return &Queue{
		Index: index, Driver: virtqueuetest.NewDriver(g, size, true),
		Kick: Eventfd(tb), Call: Eventfd(tb),
	}
}

// Addr returns the payload of SET_VRING_ADDR.
func (q *Queue) Addr() vhostuser.VringAddr {
	return vhostuser.VringAddr{
		Index: uint32(q.Index),
		Desc:  UserBase + q.Driver.Desc, Used: UserBase + q.Driver.Used,
		Avail: UserBase + q.Driver.Avail,
	}
}

// Start sends what QEMU sends for its queues when the driver is ready. SET_FEATURES and the memory
// come before.
func (f *Frontend) Start(queues ...*Queue) {
	f.tb.Helper()
	for _, q := range queues {
		i := uint32(q.Index)
		f.MustSend(vhostuser.SetVringNum, State(i, uint32(q.Driver.Size)))
		f.MustSend(vhostuser.SetVringBase, State(i, uint32(q.Base)))
		f.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
		f.MustSend(vhostuser.SetVringKick, Word(uint64(i)), q.Kick)
		f.MustSend(vhostuser.SetVringCall, Word(uint64(i)), q.Call)
	}
	for _, q := range queues {
		f.MustSend(vhostuser.SetVringEnable, State(uint32(q.Index), 1))
	}
	for _, q := range queues {
		f.MustSend(vhostuser.SetVringCall, Word(uint64(q.Index)), q.Call)
	}
}

// Stop sends what QEMU sends when the driver is gone or the machine is paused.
func (f *Frontend) Stop(queues ...*Queue) {
	f.tb.Helper()
	for _, q := range queues {
		f.MustSend(vhostuser.SetVringEnable, State(uint32(q.Index), 0))
	}
	for _, q := range queues {
		b, err := f.Query(vhostuser.GetVringBase, State(uint32(q.Index), 0))
		if err != nil || len(b) != 8 {
			f.tb.Fatalf("GET_VRING_BASE: % x, %v", b, err)
		}
		q.Base = uint16(binary.NativeEndian.Uint32(b[4:]))
	}
}

// Config reads the config space from 0 on.
func (f *Frontend) Config(size uint32) ([]byte, error) {
	access := vhostuser.ConfigAccess{Data: make([]byte, size)}
	b, err := f.Query(vhostuser.GetConfig, access.AppendTo(nil))
	if err != nil {
		return nil, err
	}
	if len(b) < 12 {
		return nil, io.ErrUnexpectedEOF
	}
	return b[12:], nil
}

// Eventfd makes an eventfd that is closed when the test ends.
func Eventfd(tb testing.TB) int {
	tb.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		tb.Fatalf("eventfd: %v", err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}
