// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestFrontEndMakesItsDescriptorsBlock: the front end shares the files of the kick and call
// descriptors, and can make reads and writes of them block. The device still serves, and ends.
func TestFrontEndMakesItsDescriptorsBlock(t *testing.T) {
	v := greetedVM(t, &stubs{}, limits)
	for _, q := range v.queues {
		for _, fd := range []int{q.Kick, q.Call} {
			if err := unix.SetNonblock(fd, false); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = unix.Write(q.Call, []byte{0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	for range 100 { // interrupts, more than the counter has room for
		v.hello()
	}
	v.open(0)
	v.add(0, 0, wire.ChainHeader{Type: wire.ChainEvent})
	v.closeChannel(0)
	v.reap(1, 1)
	v.kick(0)
	v.close()
}

// TestConfigurationSpace: it says whose device it is, and nothing that HELLO tells.
func TestConfigurationSpace(t *testing.T) {
	d := New(Config{Settings: settings.Default(), Spawn: &stubs{}, Log: quiet()})
	got, err := d.ReadConfig(0, 256)
	want := binary.LittleEndian.AppendUint32(nil, wire.Magic)
	want = binary.LittleEndian.AppendUint32(want, wire.Version)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v; want %x", got, err, want)
	}
}
