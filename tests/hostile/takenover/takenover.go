// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// The report of a deed is at Report in the guest's memory: a word that is Begun and then Ended, and
// what the deed has reached, as a length and a text.
const (
	Report      = 0x1000
	ReportBytes = 512
	Begun       = 0x11111111
	Ended       = 0x22222222
)

// Deed is one thing that a worker does.
type Deed struct {
	Kind, Name string
	// Early: it is done before the worker is ready, which then ends.
	Early bool
	// Deaf: the worker doesn't obey when the device process tells it to stop.
	Deaf bool
	// Lies: it lies about device memory. The VM's programs may lack some until that is put right.
	Lies bool
	// CUDA: it is confined as a worker on CUDA.
	CUDA bool
	// Vouchers: the guest's driver vouches for pages (Vouch).
	Vouchers bool
	// do does it, and returns what it has reached that it must not reach. "": nothing.
	do func(w *worker) string
}

// Deeds are all deeds.
func Deeds() (list []Deed) {
	for _, part := range [][]Deed{
		messages(), early(), copies(), withVouchers(), pages(), memory(), passes(), mappings(),
		queue(), calls(), files(), resources(),
	} {
		list = append(list, part...)
	}
	return list
}

// Name is the name of a guest process whose worker does the deed with this number.
func Name(deed int) (comm [16]byte) {
	copy(comm[:], fmt.Sprintf("bad:%d", deed))
	return comm
}

var asked = regexp.MustCompile(`"comm":"bad:(\d+)"`)

// Asked reads from the first message of a worker's control connection which deed the worker is to
// do, if any. The message stays there.
func Asked(fd int) (deed int, is bool) {
	b := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_PEEK)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, false
		}
		found := asked.FindSubmatch(b[:n])
		if found == nil {
			return 0, false
		}
		deed, err = strconv.Atoi(string(found[1]))
		return deed, err == nil && deed < len(Deeds())
	}
}

// worker has what a worker gets from the device process.
type worker struct {
	fd      int // its control connection
	control *handover.Conn
	start   *handover.Message
	files   handover.Named
	guest   handover.Region // of the guest's memory, from address 0
	ram     []byte          // the same; nil: it may map no more than its own pages
	page    []byte          // from Report on
	in      chan received
	had     possessions
	log     *os.File // the host's log
}

type received struct {
	message *handover.Message
	files   []int
}

// Do does a deed, with the control connection fd. Confine makes the worker give up what it gives up
// before it serves a guest, on CUDA or not, by the number that the connection has then, and returns
// what decides on what it maps. Do doesn't return.
func Do(deed, fd int, confine func(cuda bool, control int) (listener int, err error)) {
	d := Deeds()[deed]
	log, err := quiet()
	var control *handover.Conn
	if err == nil {
		control, err = handover.NewConn(os.NewFile(uintptr(fd), "control"))
	}
	w := &worker{control: control, in: make(chan received, 64), log: log}
	if err == nil {
		control.WithFD(func(fd int) { w.fd = fd })
		err = w.begin()
	}
	if err == nil {
		w.had, err = possess()
	}
	if err == nil {
		err = w.confine(func() (int, error) { return confine(d.CUDA, w.fd) }, d.Vouchers)
	}
	if err != nil {
		fmt.Fprintln(log, "taken over:", err)
		os.Exit(1)
	}
	if !d.Early {
		w.tell(handover.KindReady)
		go w.listen(d.Deaf)
	}
	w.report(Begun, "")
	w.report(Ended, d.do(w))
	if d.Early {
		end()
	}
	select {}
}

// quiet has what this process says as it crashes go nowhere: it may die of a deed, and a crash that
// the log shows is another process's. It returns the log.
func quiet() (log *os.File, err error) {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return os.Stderr, err
	}
	defer nowhere.Close()
	fd, err := unix.Dup(unix.Stderr)
	if err != nil {
		return os.Stderr, fmt.Errorf("keep the log: %w", err)
	}
	if err := unix.Dup3(int(nowhere.Fd()), unix.Stderr, 0); err != nil {
		return os.Stderr, fmt.Errorf("put %s in place of the log: %w", os.DevNull, err)
	}
	return os.NewFile(uintptr(fd), "log"), nil
}

// begin takes what the first message brings.
func (w *worker) begin() error {
	m, fds, err := w.control.Receive()
	if err != nil {
		return err
	}
	w.start, w.files = m, m.Name(fds)
	return nil
}

// confine gives up what a worker gives up, and maps the guest's memory, or what it may map of it if
// the driver vouches for pages.
func (w *worker) confine(confine func() (listener int, err error), vouchers bool) error {
	listener, err := confine()
	if err != nil {
		return err
	}
	said := &handover.Message{Kind: handover.KindConfined}
	said.Files.Listener = true
	err = w.control.Send(said, []int{listener})
	unix.Close(listener)
	if err != nil {
		return err
	}
	m, fds, err := w.control.Receive()
	if err != nil {
		return err
	}
	if m.Kind != handover.KindGuest || len(fds) != 0 || len(m.Memory) == 0 ||
		m.Memory[0].GuestAddr != 0 {
		return fmt.Errorf("%s, memory %v in %d files", m.Kind, m.Memory, len(fds))
	}
	w.guest = m.Memory[0]
	if vouchers {
		w.page, err = w.mapBy(records, Report, 4096, true)
		return err
	}
	w.ram, err = unix.Mmap(w.guest.File, 0, int(w.guest.Size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err == nil {
		w.page = w.ram[Report:]
	}
	return err
}

// report writes to the guest's memory.
func (w *worker) report(state uint32, reached string) {
	at := w.page
	n := copy(at[8:ReportBytes], reached)
	binary.LittleEndian.PutUint32(at[4:], uint32(n))
	binary.LittleEndian.PutUint32(at, state)
}

// listen passes on what the device process says, and obeys when it is to stop.
func (w *worker) listen(deaf bool) {
	for {
		m, fds, err := w.control.Receive()
		if err != nil {
			if deaf {
				return
			}
			end()
		}
		if m.Kind == handover.KindStop && !deaf {
			w.tell(handover.KindStopped)
			end()
		}
		select {
		case w.in <- received{m, fds}:
		default:
			handover.CloseFiles(fds)
		}
	}
}

// end ends the process without anything that its sandbox forbids.
func end() { syscall.Exit(0) }

// tell sends a message that has nothing but a kind.
func (w *worker) tell(k handover.Kind) { w.say(&handover.Message{Kind: k}) }

// say sends a message, if the other side still listens.
func (w *worker) say(m *handover.Message, files ...int) { _ = w.control.Send(m, files) }

// raw sends any bytes with any files, and doesn't wait for room.
func (w *worker) raw(b []byte, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	return unix.Sendmsg(w.fd, b, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// patience is how long a deed waits for others. On a busy machine they may take long.
const patience = 30 * time.Second

// await waits for a message of a kind.
func (w *worker) await(k handover.Kind) (m *handover.Message, files []int) {
	late := time.After(patience)
	for {
		select {
		case r := <-w.in:
			if r.message.Kind == k {
				return r.message, r.files
			}
			handover.CloseFiles(r.files)
		case <-late:
			return nil, nil
		}
	}
}
