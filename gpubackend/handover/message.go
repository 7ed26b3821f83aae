// SPDX-License-Identifier: Apache-2.0

// Package handover has the messages between a device process and its workers and mover, and the
// memory that they share: which guest memory and queue a worker gets, when it must let go of them,
// and what it counted.
//
// Both ends are this program, but a worker runs its guest's kernels and may be taken over through
// them. The device process therefore believes a worker only about its own queue, where a lie harms
// only that worker's guest.
//
// Files: message.go (the messages), rights.go (descriptors that go with them), log.go, memory.go
// (the guest's), counters.go (what is counted), state.go and state_unsafe.go (where a worker's
// queue stands), standing.go (where children stand when another device process takes them over).
package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// Kind names a message.
type Kind string

// Messages of the device process, and the answers to them.
const (
	KindWarm    Kind = "warm"    // to a worker, before start: initialise the GPU
	KindStart   Kind = "start"   // to a worker: serve this queue
	KindReady   Kind = "ready"   // the worker is warm, or serves it
	KindMemory  Kind = "memory"  // guest memory changed
	KindDone    Kind = "done"    // the worker (or mover) uses the new memory only
	KindStop    Kind = "stop"    // let go of the queue and end
	KindStopped Kind = "stopped" // nothing of the guest is in use any more
	KindPause   Kind = "pause"   // let go of the queue when what was begun has ended, and live on
	// nothing of the guest is in use, and nothing of the worker's is under way
	KindPaused Kind = "paused"
	KindResume Kind = "resume" // go on with this queue, and with this memory if there is some
	KindCall   Kind = "call"   // a new call descriptor
	KindPolicy Kind = "policy" // new policies
	KindAttach Kind = "attach" // to the mover: one more worker, on this connection
	KindImport Kind = "import" // to a worker: an object that another one has offered, or itself
	KindTaken  Kind = "taken"  // the worker has the object
	KindSync   Kind = "sync"   // to a worker: give a sign
	KindSynced Kind = "synced" // what the worker said before has arrived
	KindLog    Kind = "log"    // mark in this log, or in none, what is written from now on
	KindLogged Kind = "logged" // all writes that end from now on are

	// Device memory is moved out to the host's in this order, and in again. A worker that was told
	// to drain begins nothing until it is told to go on.
	KindDrain    Kind = "drain"    // to a worker: begin nothing, and end what was begun
	KindDrained  Kind = "drained"  // it has ended, with so many bytes that could move; or goes on
	KindMoveOut  Kind = "moveout"  // move them to a new image, or to the one that is there
	KindMovedOut Kind = "movedout" // all are; with an error none is
	KindMoveIn   Kind = "movein"   // move them in again
	KindMovedIn  Kind = "movedin"  // all are; with an error none is
	KindGoOn     Kind = "goon"     // go on, from where it was drained
	KindForget   Kind = "forget"   // keep no image any more; there is no answer

	// A worker that is drained can be saved, whether its memory is out or in. Another worker can
	// start from what it wrote.
	KindSave  Kind = "save"  // write all that the program has to this pipe
	KindSaved Kind = "saved" // it has; with an error it hasn't

	// Device memory is copied while the program runs, so that a save needs to write only what has
	// changed since.
	KindPrecopy   Kind = "precopy"   // copy some to the buffer; begin anew if one comes along
	KindPrecopied Kind = "precopied" // these sectors; with an error none

	// Another device process has the connection now. Requests of the one before that it hasn't seen
	// answered are void.
	KindTakeOver Kind = "takeover" // say where you stand
	KindStands   Kind = "stands"   // so, as far as all is obeyed that came before
)

// Messages of a worker that answer nothing.
const (
	KindOffer    Kind = "offer"    // an object that others may have
	KindWithdraw Kind = "withdraw" // it is gone: who has it already keeps it
	KindWake     Kind = "wake"     // it was drained, and its program has work
	// there is no room for so many bytes more: the answer, of the same kind, says to try again, or
	// with an error not to
	KindRoom Kind = "room"
	// a copy needs the mover: the answer, of the same kind, is a connection to it, or why there is
	// none
	KindMover Kind = "mover"
	// to a worker: give up the connection to the mover, if no copy needs it; and that it has
	KindRelease Kind = "release"
	KindFault   Kind = "fault" // a GPU answers what says that it is broken, or gone
)

// Unasked says whether a message answers nothing.
func (k Kind) Unasked() bool {
	switch k {
	case KindOffer, KindWithdraw, KindWake, KindRoom, KindMover, KindRelease, KindFault:
		return true
	}
	return false
}

// Message is one message. Its files travel with it in this order: kick, call, state, conn, object,
// image, log, the gate's and the ledger's, as far as Files lists them, then those of memory.
type Message struct {
	Kind    Kind     `json:"kind"`
	Error   string   `json:"error,omitempty"`
	GPU     string   `json:"gpu,omitempty"`
	Home    int      `json:"home,omitempty"` // the GPU for which a worker is to be warm
	Channel int      `json:"channel"`
	PID     int32    `json:"pid,omitempty"`
	Comm    string   `json:"comm,omitempty"`
	Queue   *Queue   `json:"queue,omitempty"`
	Memory  []Region `json:"memory,omitempty"`
	Policy  *Policy  `json:"policy,omitempty"`
	Object  *Object  `json:"object,omitempty"`
	Log     *Log     `json:"log,omitempty"`
	// the worker's on pages that all workers of the VM share
	Entry int `json:"entry,omitempty"`
	// how much a worker that is drained has to move, or is to move out to a new image, or lacks
	// room for; and how long draining or pausing may take
	Bytes uint64        `json:"bytes,omitempty"`
	Grace time.Duration `json:"grace,omitempty"`
	// an image may be kept when the worker goes on, and will be; and how much of it needed no copy
	Keep      bool   `json:"keep,omitempty"`
	Unchanged uint64 `json:"unchanged,omitempty"`
	// which request this is, or answers, where the answer may come too late
	Turn uint64 `json:"turn,omitempty"`
	// of a worker that starts: as one that is drained
	Held bool `json:"held,omitempty"`
	// of one that is to be saved: device memory but for what was copied ahead, and hasn't changed
	Ahead bool `json:"ahead,omitempty"`
	// of one that starts: the record is in a file, which may get another one behind it; of one that
	// is to be saved: device memory but for what that file has
	Filed bool `json:"filed,omitempty"`
	// that were copied, by their addresses, and that a pass is over; to a worker: that all is
	Sectors []uint64 `json:"sectors,omitempty"`
	Over    bool     `json:"over,omitempty"`
	// of one that is drained: it must be possible to save it
	Whole bool `json:"whole,omitempty"`
	// of one that starts: it goes on from a record, which comes through the object's file. Without
	// a queue it waits for one, and for the guest's memory, as one that has paused
	Saved bool `json:"saved,omitempty"`
	// of one that says where it stands
	Standing *Standing `json:"standing,omitempty"`
	Fault    *Fault    `json:"fault,omitempty"`
	Files    Files     `json:"files"`
}

// Fault is a worker's GPU that has answered that it is broken or gone.
type Fault struct {
	GPU    int   `json:"gpu"` // of the VM's
	Result int32 `json:"result"`
}

// Files says which files a message carries.
type Files struct {
	Kick, Call, State, Conn, Object bool
	Image                           bool // of device memory, which came before the record
	Log                             bool
	Gate                            bool // GateFiles files: a gate.Page's, in the order of its FDs
	Ledger                          bool // a ledger.Page's
	Memory                          int  // number of files that Region.File indexes
}

// GateFiles is how many files a gate has.
const GateFiles = 3

// ObjectKind is what an object is.
type ObjectKind string

// Memory comes with a file; a pool is known by its token.
const (
	ObjectMemory ObjectKind = "memory"
	ObjectPool   ObjectKind = "pool"
)

// Object is something that workers of one VM share. Its fields come from the worker that offers it,
// which may lie.
type Object struct {
	Kind   ObjectKind
	Number uint32 // by which the worker that offers it knows it
	Bytes  uint64 // of memory
	GPU    uint64 // its id, as in the ledger: processes number their GPUs differently
	Token  uint64 // of a pool
	// The device process adds these for a worker that imports it.
	ID     uint64 // tells objects of the VM apart
	Own    bool   // that worker offers it itself
	Import uint32 // by which the guest's library will ask for it
}

// Queue says where a queue's rings are and where it stands: virtqueue.Config without what is always
// the same.
type Queue struct {
	Size              uint16
	Desc, Avail, Used uint64
	Base              uint16
	EventIdx          bool
	Indirect          bool
	InFlight          []uint16
	// of one that starts from a record: what the record has in flight is made available anew
	Anew bool `json:",omitempty"`
}

// Region is a range of guest memory in file File of the message.
type Region struct {
	GuestAddr, Size, FileOffset uint64
	File                        int
}

// Policy is how a VM's commands are batched and waited for.
type Policy struct {
	InlineLimit   uint32
	BatchCommands uint32
	BatchBytes    uint32
	BatchDelayUs  uint32
	SpinHostUs    uint32
	GraphReplay   bool
	Mapping       bool
	StagingBytes  uint64
	// the host's memory that the process may make its worker take, 0 for the default
	HostMemory    uint64
	SoftWorkers   int
	SoftMemory    uint64 // of each of SoftGPUs
	SoftGPUs      int    // 0: one
	SoftLost      int    // software GPU SoftLost-1 is off the bus; 0: none is
	AllowPageable bool
	// the VM's GPUs as the host describes them, of which a worker takes their NVLinks; they stay
	// the same, so that policies can be compared
	GPUs *[]hostgpus.GPU `json:",omitempty"`
}

// Known are descriptions of GPUs, or none.
func (p *Policy) Known() []hostgpus.GPU {
	if p.GPUs == nil {
		return nil
	}
	return *p.GPUs
}

// Defaults of HostMemory. On a real GPU the images of libraries count, of which a framework loads
// gigabytes.
const (
	hostMemorySoft = 1 << 30
	hostMemoryCUDA = 8 << 30
)

// HostBytes is HostMemory, or the default on that GPU.
func (p *Policy) HostBytes(gpu string) uint64 {
	switch {
	case p.HostMemory != 0:
		return p.HostMemory
	case gpu == "cuda":
		return hostMemoryCUDA
	}
	return hostMemorySoft
}

// Conn is one end of a control connection: a SEQPACKET socket.
type Conn struct {
	c       *net.UnixConn
	timeout time.Duration
}

// SetTimeout bounds how long each later Send waits for a peer that doesn't read. 0, the default, is
// no bound.
func (c *Conn) SetTimeout(t time.Duration) { c.timeout = t }

// NewConn takes over a socket.
func NewConn(f *os.File) (*Conn, error) {
	c, err := socket.Of(f)
	if err != nil {
		return nil, fmt.Errorf("control connection: %w", err)
	}
	f.Close()
	return &Conn{c: c}, nil
}

// Pair makes a control connection: one end for this process, the other to pass on.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	c, err := NewConn(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return c, os.NewFile(uintptr(fds[1]), "control"), nil
}

const (
	maxMessage = 1 << 17
	maxFiles   = 250 // the kernel takes 253
)

// Send sends m with the files named by fds: those of m.Files, in order.
func (c *Conn) Send(m *Message, fds []int) error {
	b, oob, err := m.packed(fds)
	if err != nil {
		return err
	}
	if c.timeout > 0 {
		_ = c.c.SetWriteDeadline(time.Now().Add(c.timeout))
	}
	if _, _, err := c.c.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// SendNow sends a message if there is room for it, and doesn't wait otherwise, not even for another
// Send.
func (c *Conn) SendNow(m *Message, fds []int) error {
	b, oob, err := m.packed(fds)
	if err != nil {
		return err
	}
	raw, err := c.c.SyscallConn()
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for again := true; again; again = failed == unix.EINTR {
			failed = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// packed is a message as it goes over the socket.
func (m *Message) packed(fds []int) (b, oob []byte, err error) {
	if b, err = json.Marshal(m); err != nil {
		return nil, nil, err
	}
	if len(b) > maxMessage || len(fds) > maxFiles {
		return nil, nil,
			fmt.Errorf("send %s: %d bytes and %d files are too many", m.Kind, len(b), len(fds))
	}
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return b, oob, nil
}

// Receive waits for a message. The caller owns the files.
func (c *Conn) Receive() (*Message, []int, error) {
	b := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, _, _, err := c.c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, nil, err
	}
	fds, err := FilesOf(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	m := &Message{}
	if err := json.Unmarshal(b[:n], m); err != nil || n == 0 {
		CloseFiles(fds)
		if n == 0 {
			return nil, nil, fmt.Errorf("receive: %w", net.ErrClosed)
		}
		return nil, nil, fmt.Errorf("receive: %w", err)
	}
	if want := m.Files.count(); want != len(fds) {
		CloseFiles(fds)
		return nil, nil, fmt.Errorf("receive %s: %d files, want %d", m.Kind, len(fds), want)
	}
	return m, fds, nil
}

// WithFD calls f with the connection's descriptor, which the connection keeps. A closed connection
// has none.
func (c *Conn) WithFD(f func(fd int)) {
	if raw, err := c.c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

func (f Files) count() int {
	if f.Memory < 0 {
		return -1
	}
	n := f.Memory
	for _, b := range []bool{
		f.Kick, f.Call, f.State, f.Conn, f.Object, f.Image, f.Log,
	} {
		if b {
			n++
		}
	}
	if f.Gate {
		n += GateFiles
	}
	if f.Ledger {
		n++
	}
	return n
}

// Named is a message's files by name; -1 where there is none.
type Named struct {
	Kick, Call, State, Conn, Object, Image, Log int

	Gate   []int // none, or GateFiles
	Ledger int
	Memory []int
}

// Name sorts the files of a received message.
func (m *Message) Name(fds []int) Named {
	n := Named{Kick: -1, Call: -1, State: -1, Conn: -1, Object: -1, Image: -1, Log: -1,
		Ledger: -1}
	for _, f := range []struct {
		has bool
		to  *int
	}{
		{m.Files.Kick, &n.Kick}, {m.Files.Call, &n.Call}, {m.Files.State, &n.State},
		{m.Files.Conn, &n.Conn}, {m.Files.Object, &n.Object}, {m.Files.Image, &n.Image},
		{m.Files.Log, &n.Log},
	} {
		if f.has {
			*f.to, fds = fds[0], fds[1:]
		}
	}
	if m.Files.Gate {
		n.Gate, fds = fds[:GateFiles], fds[GateFiles:]
	}
	if m.Files.Ledger {
		n.Ledger, fds = fds[0], fds[1:]
	}
	n.Memory = fds
	return n
}
