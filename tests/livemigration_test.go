// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// keepers are programs that compute and compare without end, with what they keep on the GPU: memory
// of all kinds, mapped by hand, too, graphs, with conditions and memory, too, arrays, textures and
// surfaces, other objects, and what two of them share.
var keepers = []string{"keeps", "keepsgraphs", "keepsgraphparts", "keepsarrays", "keepsobjects",
	"keepsmapped", "keepsshared"}

// migrations is how often a test migrates its VM, by day and at night. `make migrations` sets
// PARACUDA_MIGRATIONS, for more.
func migrations(t *testing.T, byDay, night int) int {
	t.Helper()
	text := cmp.Or(os.Getenv("PARACUDA_MIGRATIONS"), fmt.Sprint(times(byDay, night)))
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("PARACUDA_MIGRATIONS is %q, want a number of migrations", text)
	}
	return n
}

// TestLiveMigration migrates a VM again and again, to another QEMU with another device process,
// while its programs compute all the time. Every fourth time it goes through a file.
func TestLiveMigration(t *testing.T) {
	needsReleases(t)
	rounds, image := migrations(t, 3, 8), keepingRoot(t)
	inReleases(t, migrators, "11", func(t *testing.T, version string) {
		m := newMoving(t, version, image)
		for i := range rounds {
			if i%4 == 2 {
				m.throughFile()
			} else {
				m.live()
			}
			m.compute()
		}
		slices.Sort(m.stood)
		t.Logf("%d migrations, %d tries refused: downtime %v (median), %v at most",
			rounds, m.refused, m.stood[rounds/2], m.stood[rounds-1])
	})
}

// TestSnapshots takes snapshots of a VM and loads them, again and again, while its programs
// compute. They go on after a snapshot is taken, and after it is loaded.
func TestSnapshots(t *testing.T) {
	needsReleases(t)
	image := keepingRoot(t)
	inReleases(t, migrators, "11", func(t *testing.T, version string) {
		disk := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		m := newMoving(t, version, image, "-drive",
			"if=none,format=raw,snapshot=on,file="+disk)
		for range times(1, 3) {
			m.snapshot()
			m.compute()
			m.g.monitor("loadvm here")
			m.compute()
			m.g.monitor("loadvm here")
			m.compute()
		}
	})
}

// TestMigrationRefusedThere: if the destination's device process can't take the programs up, it
// says why, and takes up none. The destination's QEMU ends. The source's waits for its answer
// (return-path), and the VM goes on there.
func TestMigrationRefusedThere(t *testing.T) {
	needsReleases(t)
	image := keepingRoot(t)
	inReleases(t, migrators, "11", func(t *testing.T, version string) {
		m := newMoving(t, version, image)
		for options, why := range map[string]string{
			"--set memory=32M": "set memory=",
			"--gpu soft:2":     "these aren't the GPUs that the program was told of",
			"--set arena=16M":  "arena size",
		} {
			m.options = strings.Fields(options)
			m.insist(func() bool {
				m.g.monitor("migrate_set_capability return-path on")
				g, device := m.g, m.device
				line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
				m.start("-incoming", line)
				m.g.answers()
				refusals := func() int {
					return strings.Count(device.said(t), "can't be saved or migrated now")
				}
				before := refusals()
				if m.send(g, device, line) {
					t.Errorf("%s: the VM was migrated, want a refusal", options)
				}
				there, other := m.g, m.device
				m.g, m.device, m.control = g, device, m.before
				if refusals() > before {
					m.leave(there, other)
					return false // the source refused: try again
				}
				other.expect(t, "transfer of the device's state", why)
				m.leave(there, other)
				return true
			})
			m.g.lives()
			m.compute()
		}
		m.options = nil
		m.live()
		m.compute()
	})
}

// moving is a VM that is migrated while its programs compute.
type moving struct {
	t              *testing.T
	program, image string
	dir            string
	places         int // device processes that were started for it
	g              *staying
	device         *served
	control        string          // the device process's control socket
	before         string          // that of the one before
	moves          int             // migrations that timed saw succeed
	stood          []time.Duration // downtimes
	refused        int             // tries that were refused
	options        []string        // for device processes that are started
}

// keepingRoot makes an initramfs that has the keepers.
func keepingRoot(t *testing.T) string {
	t.Helper()
	image := gpuRoot(t)
	script := `set -e; d=$(mktemp -d); mkdir -p $d/gpu/keep; image=$1; shift
		for p; do cp "$p" $d/gpu/keep/; ldd "$p"; done | sed -n 's,.*\s\(/[^ ]*\) (0x.*,\1,p' |
			sort -u | xargs -I{} cp --parents -L {} $d/
		cd $d; find . | cpio -o -H newc --quiet >>"$image"; rm -r $d`
	words := []string{"sh", "-c", script, "sh", image}
	for _, p := range keepers {
		words = append(words, filepath.Join(programs, p))
	}
	if r := command(t, time.Minute, root, words...); r.exit != 0 {
		t.Fatalf("add programs to an initramfs: %s", r.stderr)
	}
	return image
}

// newMoving boots a VM, with more options for QEMU, and starts its programs.
func newMoving(t *testing.T, version, image string, more ...string) *moving {
	t.Helper()
	return newMovingOf(t, nil, version, image, more...)
}

// newMovingOf is the same, with options for its device processes.
func newMovingOf(
	t *testing.T, options []string, version, image string, more ...string,
) *moving {
	t.Helper()
	m := &moving{t: t, program: qemuProgram(t, version), image: image, dir: t.TempDir(),
		options: options}
	m.start(more...)
	m.g.expect("guest: device", 1)
	m.g.tell("keep")
	m.compute()
	return m
}

// start starts the next QEMU and its device process.
func (m *moving) start(more ...string) {
	m.t.Helper()
	m.g = startMachine(m.t, m.program, m.serve(), fmt.Sprintf("moving-%d-console", m.places),
		m.image, more...)
}

// serve starts the next device process, and returns its socket.
func (m *moving) serve() (socket string) {
	m.t.Helper()
	m.places++
	socket = filepath.Join(m.dir, fmt.Sprint("moving-", m.places))
	_ = os.Remove(socket)
	m.before, m.control = m.control, socket+".control"
	m.device = serve(m.t, socket, append(m.options, "--control", m.control)...)
	return socket
}

// leave ends a QEMU and a device process that the VM has left.
func (m *moving) leave(g *staying, device *served) {
	g.kill()
	<-g.gone
	device.kill()
}

// live migrates the VM while it runs.
func (m *moving) live() {
	m.t.Helper()
	m.liveBy(func() (string, string) {
		line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
		return line, line
	})
}

// liveBy does the same by a connection that has one URI for the destination and one for the source.
func (m *moving) liveBy(line func() (there, here string)) {
	m.t.Helper()
	m.insist(func() bool {
		g, device := m.g, m.device
		there, here := line()
		m.start("-incoming", there)
		m.g.answers()
		if moved := m.send(g, device, here); !moved {
			m.leave(m.g, m.device)
			m.g, m.device, m.control = g, device, m.before
			return false
		}
		m.leave(g, device)
		return true
	})
	m.g.runs()
}

// throughFile migrates the VM to a file, and from there to another QEMU.
func (m *moving) throughFile() {
	m.t.Helper()
	file := filepath.Join(m.dir, "file")
	m.insist(func() bool { return m.send(m.g, m.device, "exec:cat >"+file) })
	m.leave(m.g, m.device)
	m.start("-incoming", "exec:cat "+file)
	m.g.runs()
}

// passing are reasons for a refusal that pass: what a program is about to do, or in the middle of,
// when the VM pauses.
var passing = []string{"a host function is to run", "it captures a graph"}

// isPassing says whether a refusal has such a reason.
func isPassing(said string) bool {
	has := func(why string) bool { return strings.Contains(said, why) }
	return slices.ContainsFunc(passing, has)
}

// insist tries until the VM is migrated or saved. If that is refused for a reason that passes, the
// VM must run on.
func (m *moving) insist(try func() bool) {
	m.t.Helper()
	for range 50 {
		if try() {
			return
		}
		m.refused++
		m.device.expect(m.t, "the VM can't be saved or migrated now")
		if said := m.device.said(m.t); !isPassing(said) {
			m.t.Fatalf("refused, want one of the reasons %q:%s", passing, tail(said))
		}
		m.g.lives()
		m.compute()
	}
	m.t.Fatalf("refused 50 times, each time for one of %q", passing)
}

// send has QEMU migrate the VM to a URI, and says whether it did.
func (m *moving) send(g *staying, device *served, uri string) bool {
	m.t.Helper()
	g.monitor("migrate_set_parameter max-bandwidth 4G")
	switch status := g.migrate(uri); status {
	case "completed":
	case "failed":
		m.t.Log(g.qmp("query-migrate"))
		return false
	default:
		log, _ := os.ReadFile(device.log)
		m.t.Fatalf("migration %s\n%s", status, tail(string(log)))
	}
	var answer struct {
		Return struct{ Downtime int }
	}
	_ = json.Unmarshal([]byte(g.qmp("query-migrate")), &answer)
	m.stood = append(m.stood, time.Duration(answer.Return.Downtime)*time.Millisecond)
	return true
}

// snapshot has QEMU save a snapshot.
func (m *moving) snapshot() {
	m.t.Helper()
	m.insist(func() bool {
		answer := m.g.qmpWith("human-monitor-command", "command-line", "savevm here")
		return strings.TrimSpace(answer) == `{"return": ""}`
	})
}

// compute waits until each of the programs has computed more, and checks that none has ended.
func (m *moving) compute() {
	m.t.Helper()
	begin := m.commands()
	for w := patienceOf(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now, on := m.commands(), 0
		for name, n := range now {
			if n >= begin[name]+aTurn {
				on++
			}
		}
		m.noneEnds()
		if on == len(keepers) {
			return
		}
		if w.over() {
			log, _ := os.ReadFile(m.device.log)
			console, _ := os.ReadFile(m.g.console)
			m.t.Fatalf("the programs' commands were %v and are %v, want %d more of each\n%s\n%s",
				begin, now, aTurn, tail(string(log)), tail(string(console)))
		}
	}
}

// aTurn is how many commands a program needs for all that it does again and again: keepsshared
// imports anew every 8th round of some 10 commands.
const aTurn = 200

// noneEnds checks that all programs run in the guest.
func (m *moving) noneEnds() {
	m.t.Helper()
	if console, _ := os.ReadFile(m.g.console); strings.Contains(string(console), "has ended") {
		m.t.Fatalf("a program has ended:\n%s", tail(string(console)))
	}
}

// commands is the number of each program's commands that the present device process has executed.
func (m *moving) commands() map[string]uint64 {
	m.t.Helper()
	a := statistics(m.control)
	if a == nil {
		return nil
	}
	done := map[string]uint64{}
	for _, p := range a.Programs {
		done[p.Name] = p.Stats["commands"]
	}
	return done
}

// TestMovedInAFile suspends a VM to a file and migrates it to another QEMU. The device process
// there reads the file when it starts, and the VM goes on: programs wait, and none fails. A
// snapshot that is taken while the VM is suspended to a file goes on from that file.
func TestMovedInAFile(t *testing.T) {
	needsQEMU(t)
	m := newMoving(t, migrators[len(migrators)-1], keepingRoot(t))
	m.options = []string{"--from", m.toFile("first")}
	disk := filepath.Join(m.dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	stream := filepath.Join(m.dir, "stream")
	if !m.send(m.g, m.device, "exec:cat >"+stream) {
		t.Fatal("a VM that is suspended to a file couldn't be migrated")
	}
	m.leave(m.g, m.device)
	m.start("-incoming", "exec:cat "+stream, "-drive",
		"if=none,format=raw,snapshot=on,file="+disk)
	m.g.runs()
	m.compute()
	m.device.expect(t, "the VM was resuming")

	file := m.toFile("second")
	m.g.monitor("savevm here")
	m.fromFile(file)
	m.compute()
	m.toFile("third")
	m.g.monitor("loadvm here")
	m.fromFile(file)
	m.compute()
}

// toFile suspends the VM to a new file.
func (m *moving) toFile(name string) (file string) {
	m.t.Helper()
	file = filepath.Join(m.dir, name)
	for tries := 0; ; tries++ {
		r := command(m.t, time.Minute, root, paracuda, "suspend", "--to", file, m.control)
		if r.exit == 0 {
			return file
		}
		if !isPassing(r.stderr) || tries == 50 {
			m.t.Fatalf("suspend: exit code %d:%s", r.exit, tail(r.stderr))
		}
	}
}

// fromFile resumes the VM from a file.
func (m *moving) fromFile(file string) {
	m.t.Helper()
	r := command(m.t, time.Minute, root, paracuda, "resume", "--from", file, m.control)
	if r.exit != 0 {
		m.t.Fatalf("resume: exit code %d:%s", r.exit, tail(r.stderr))
	}
}
