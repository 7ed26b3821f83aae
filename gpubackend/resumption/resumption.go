// SPDX-License-Identifier: Apache-2.0

// Package resumption lets a vhost-user session outlive its process: what the session knows is in a
// checkpoint, a keeper has its descriptors, and the next process that the keeper starts goes on
// serving the front end.
//
// # State
//
// A state of the checkpoint is, little-endian: u32 version (1), u32 how many numbers follow, then
// for each descriptor of a vhostuser.Snapshot the u32 number under which it is kept (0: there is
// none), then the snapshot in bytes. The checkpoint itself is kept as number 1, the front end's
// socket as number 2. New descriptors are kept before a state names them, and old ones dropped
// after the last state that does: a process may end between any two of these.
//
// The device has other numbers of its own, which no state names: they stay when a session begins or
// ends. Only the device knows what they mean.
//
// # Trust
//
// A state comes from a process that crashed. One that names a number that isn't kept, or names one
// twice, is refused; vhostuser.Restore checks the rest. What is kept stays kept until this process
// is ready: a program of another version may be able to use it, and if none is, the keeper soon
// gives up.
//
// # Concurrency
//
// A Keeping belongs to one goroutine; once it has made a session, to that of the session's Run.
// KeepOwn and DropOwn may be called from anywhere.
package resumption

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/keeper"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/vhostuser"
)

const (
	version = 1

	checkpointNumber = 1
	socketNumber     = 2
	firstNumber      = 3
	firstOwn         = 1 << 31 // the device's own 0

	headBytes = 8
)

// MaxOwn is how many numbers of its own the device has, from 0 on.
const MaxOwn = 896

// ErrState marks a state that can't be used.
var ErrState = errors.New("bad state of a process before this one")

var little = binary.LittleEndian

// Keeping is the connection to the keeper, and the checkpoint.
type Keeping struct {
	client *keeper.Client
	log    logrus.FieldLogger
	file   *checkpoint.File
	known  map[*vhostuser.FD]uint32 // what is kept, by number
	next   uint32
	stale  []uint32 // what is kept, and no state names any more

	mu    sync.Mutex
	ended bool           // nothing is kept any more; guarded by mu
	own   map[uint32]int // kept by the process before this one for the device

	sock *net.UnixConn       // of the process before this one; nil: there was none
	from *vhostuser.Snapshot // its session
}

// Open takes what the process before this one has left with the keeper, over the connection that
// was inherited. It owns conn.
func Open(conn int, log logrus.FieldLogger) (*Keeping, error) {
	client, held, _, err := keeper.Open(conn)
	if err != nil {
		return nil, err
	}
	k := &Keeping{client: client, log: log, known: map[*vhostuser.FD]uint32{}, next: firstNumber}
	if len(held) == 0 {
		err = k.create()
	} else {
		err = k.takeOver(held)
	}
	if err != nil {
		return nil, errors.Join(err, k.Leave())
	}
	return k, nil
}

// room is the greatest length of a state.
func room() uint32 {
	return uint32(headBytes + 4*keeper.MaxKept + vhostuser.MaxSnapshot())
}

// create makes a checkpoint without a state.
func (k *Keeping) create() (err error) {
	if k.file, err = checkpoint.Create(room()); err != nil {
		return err
	}
	return k.client.Keep(checkpointNumber, k.file.FD())
}

// takeOver reads the last state, and closes what it doesn't name. That is dropped later.
func (k *Keeping) takeOver(held map[uint32]int) error {
	k.own = takeOwn(held)
	defer func() {
		for number, fd := range held {
			handover.CloseFiles([]int{fd})
			k.stale = append(k.stale, number)
		}
	}()
	fd, ok := held[checkpointNumber]
	if !ok {
		return fmt.Errorf("%w: there is no checkpoint", ErrState)
	}
	file, state, err := checkpoint.Open(fd)
	if err != nil {
		return err
	}
	k.file = file
	delete(held, checkpointNumber)
	for number := range held {
		if number < firstOwn {
			k.next = max(k.next, number+1)
		}
	}
	if len(state) > 0 {
		if k.from, err = k.parse(state, held); err != nil {
			return err
		}
	}
	fd, ok = held[socketNumber]
	delete(held, socketNumber)
	if ok {
		if k.sock, err = socket.Conn(fd); err != nil {
			err = fmt.Errorf("%w: the front end's socket: %w", ErrState, err)
		}
	} else if k.from != nil {
		err = fmt.Errorf("%w: the front end's socket isn't kept", ErrState)
	}
	if err != nil && k.from != nil {
		k.from.Close()
	}
	return err
}

// takeOwn takes the device's own descriptors from what is kept. A number beyond those isn't used by
// a state either.
func takeOwn(held map[uint32]int) map[uint32]int {
	own := map[uint32]int{}
	for number, fd := range held {
		if number >= firstOwn && number-firstOwn < MaxOwn {
			own[number-firstOwn] = fd
			delete(held, number)
		}
	}
	return own
}

// parse reads a state, and takes the descriptors that it names from held.
func (k *Keeping) parse(state []byte, held map[uint32]int) (*vhostuser.Snapshot, error) {
	if len(state) < headBytes || little.Uint32(state) != version {
		return nil, fmt.Errorf("%w: not of version %d", ErrState, version)
	}
	n := little.Uint32(state[4:])
	if state = state[headBytes:]; n > keeper.MaxKept || len(state) < int(4*n) {
		return nil, fmt.Errorf("%w: %d descriptors", ErrState, n)
	}
	named := make([]uint32, n)
	fds, seen := make([]*vhostuser.FD, n), map[uint32]bool{0: true}
	for i := range named {
		number := little.Uint32(state[4*i:])
		_, is := held[number]
		if number != 0 && (!is || number == socketNumber || seen[number]) {
			return nil, fmt.Errorf("%w: descriptor %d isn't kept, or is named twice", ErrState,
				number)
		}
		named[i], seen[number] = number, true
	}
	for i, number := range named {
		if number != 0 {
			fds[i] = vhostuser.NewFD(held[number])
			k.known[fds[i]] = number
		}
	}
	p, err := vhostuser.ParseSnapshot(state[4*n:], fds)
	if err != nil {
		for fd := range k.known {
			_, _ = fd.Disown() // it is in held
		}
		return nil, err
	}
	for number := range seen {
		delete(held, number)
	}
	return p, nil
}

// Conn is the front end's socket, if Resume will make a session; nil: there is none.
func (k *Keeping) Conn() *net.UnixConn { return k.sock }

// Resume makes the session that goes on where the process before this one stood; nil: there is
// none.
func (k *Keeping) Resume(dev vhostuser.Device, opts vhostuser.Options) (*vhostuser.Session, error) {
	sock, from := k.sock, k.from
	k.sock, k.from = nil, nil
	var s *vhostuser.Session
	var err error
	switch {
	case sock == nil:
		return nil, nil
	case from == nil: // the front end hadn't sent anything
		s, err = vhostuser.New(sock, dev, k.keeping(opts))
	default:
		if s, err = vhostuser.Restore(sock, dev, k.keeping(opts), from); err != nil {
			from.Close()
		}
	}
	if err != nil {
		_ = sock.Close()
	}
	return s, err
}

// Begin makes the session of a front end that has come, in place of any other, and owns the socket
// if it succeeds.
func (k *Keeping) Begin(
	sock *net.UnixConn, dev vhostuser.Device, opts vhostuser.Options,
) (*vhostuser.Session, error) {
	if err := k.forget(); err != nil {
		return nil, err
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) {
		sent = k.client.Keep(socketNumber, int(fd))
	}); err != nil {
		return nil, err
	}
	if sent != nil {
		return nil, fmt.Errorf("keep the front end's socket: %w", sent)
	}
	return vhostuser.New(sock, dev, k.keeping(opts))
}

// Forget drops all of a session that has ended, while the process waits for another.
func (k *Keeping) Forget() error {
	if err := k.forget(); err != nil {
		return err
	}
	return k.unlessEnded(func() error { return k.client.Drop(socketNumber) })
}

// forget drops all that a session has told.
func (k *Keeping) forget() error {
	if err := k.file.Write(nil); err != nil {
		return err
	}
	k.stale = slices.AppendSeq(k.stale, maps.Values(k.known))
	clear(k.known)
	return k.dropStale()
}

// keeping adds to a session's options that it is kept.
func (k *Keeping) keeping(opts vhostuser.Options) vhostuser.Options {
	more := opts.Keep
	opts.Keep = func(p *vhostuser.Snapshot) {
		k.must(k.keep(p))
		if more != nil {
			more(p)
		}
	}
	opts.Served = func() { k.must(k.dropStale()) }
	return opts
}

// must drops all after an error.
func (k *Keeping) must(err error) {
	if err != nil && !k.hasEnded() {
		k.log.WithError(err).Error("the front end's session will not outlive this process")
		k.end()
	}
}

// keep writes a state.
func (k *Keeping) keep(p *vhostuser.Snapshot) error {
	if k.hasEnded() {
		return nil
	}
	fds, now := p.FDs(), map[*vhostuser.FD]uint32{}
	state := little.AppendUint32(little.AppendUint32(nil, version), uint32(len(fds)))
	for _, fd := range fds {
		if fd == nil {
			state = little.AppendUint32(state, 0)
			continue
		}
		number, is := k.known[fd]
		if !is {
			if number = k.next; number >= firstOwn {
				return errors.New("there are no numbers left for descriptors")
			}
			k.next++
			if err := k.client.Keep(number, fd.Int()); err != nil {
				return fmt.Errorf("keep a descriptor: %w", err)
			}
		}
		now[fd] = number
		state = little.AppendUint32(state, number)
	}
	if err := k.file.Write(p.AppendTo(state)); err != nil {
		return err
	}
	for fd, number := range k.known {
		if _, still := now[fd]; !still {
			k.stale = append(k.stale, number)
		}
	}
	k.known = now
	return nil
}

// dropStale drops what no state names any more. Within a session, that is done once a message is
// answered: when its last state is written, the front end waits, and its answer is lost if this
// process is killed before it is sent.
func (k *Keeping) dropStale() error {
	if k.hasEnded() {
		return nil
	}
	for _, number := range k.stale {
		if err := k.client.Drop(number); err != nil {
			return fmt.Errorf("drop a descriptor: %w", err)
		}
	}
	k.stale = nil
	return nil
}

// Ready tells the keeper that the process is ready to serve: no earlier version will go on any
// more with what was left.
func (k *Keeping) Ready() error {
	if err := k.dropStale(); err != nil {
		return err
	}
	return k.unlessEnded(k.client.Ready)
}

// Replace asks for this process to be killed and replaced by another.
func (k *Keeping) Replace() error { return k.unlessEnded(k.client.Replace) }

// Own takes the descriptors that the process before this one kept for the device, by number. The
// caller owns them; they also stay kept until they are dropped.
func (k *Keeping) Own() map[uint32]int {
	own := k.own
	k.own = nil
	return own
}

var errNumber = fmt.Errorf("the device's own descriptors have the numbers 0 to %d", MaxOwn-1)

// KeepOwn keeps one of the device's own descriptors, in place of an earlier one of that number. The
// caller keeps its own. Once nothing is kept any more, it does nothing.
func (k *Keeping) KeepOwn(number uint32, fd int) error {
	if number >= MaxOwn {
		return errNumber
	}
	return k.unlessEnded(func() error { return k.client.Keep(firstOwn+number, fd) })
}

// DropOwn drops what is kept under a number.
func (k *Keeping) DropOwn(number uint32) error {
	if number >= MaxOwn {
		return errNumber
	}
	return k.unlessEnded(func() error { return k.client.Drop(firstOwn + number) })
}

// unlessEnded sends a message, unless nothing is kept any more: then the keeper would take the
// process's end for a crash. If sending fails, all is dropped.
func (k *Keeping) unlessEnded(send func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return nil
	}
	err := send()
	if err != nil {
		k.ended = true
		_ = k.client.DropAll()
	}
	return err
}

func (k *Keeping) hasEnded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended
}

// end drops all: a state that is no longer true is worse than none.
func (k *Keeping) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	_ = k.client.DropAll()
}

// Close drops all, for example when the front end is gone for good: the process may end.
func (k *Keeping) Close() error {
	k.end()
	return k.Leave()
}

// Leave is for a process that can't go on, and ends: what is kept stays for another one, perhaps of
// another version.
func (k *Keeping) Leave() error {
	if k.from != nil {
		k.from.Close()
	}
	if k.sock != nil {
		_ = k.sock.Close()
	}
	for _, fd := range k.own {
		handover.CloseFiles([]int{fd})
	}
	var err error
	if k.file != nil {
		err = k.file.Close()
	}
	return errors.Join(err, k.client.Close())
}
