// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// TestTakenUp: another process goes on from the file, and from no other; what it must know for that
// is noted each time that it changes.
func TestTakenUp(t *testing.T) {
	v := newVM(t, "a", "", "c")
	var noted []*InFile
	v.config.Noted = func() { noted = append(noted, v.InFile()) }
	old := v.mustSave()
	if _, err := v.Load(bytes.NewReader(old), silent); err != nil {
		t.Fatal(err)
	}
	v.workers[0].text = "A" // it has computed on
	good := v.mustSave()
	if n := len(noted); n < 3 || noted[n-1] == nil ||
		!reflect.DeepEqual(noted[n-1], noted[n-2]) {
		t.Fatalf("noted: %v", noted)
	}
	f, err := DecodeInFile(v.InFile().Encode(), 3)
	if err != nil || !reflect.DeepEqual(f, v.InFile()) {
		t.Fatalf("%+v, %v", f, err)
	}
	other := newVM(t, "", "", "")
	if err := other.suspension.TakeFile(); err != nil {
		t.Fatal(err)
	}
	other.TakeUp(f)
	if _, err := other.Load(bytes.NewReader(old), silent); !errors.Is(err, errAnother) {
		t.Fatalf("an older file: %v", err)
	}
	if _, err := other.Load(bytes.NewReader(good), silent); err != nil {
		t.Fatal(err)
	}
	other.mustRun("0A", "2c")
	if other.InFile() != nil || other.suspension.State() != suspend.Running {
		t.Fatalf("%+v, %s", other.InFile(), other.suspension.State())
	}
}

// TestNotedBeforeTheyEnd: before workers end, it is noted that their programs are in the file; and
// before the programs go on, that they aren't.
func TestNotedBeforeTheyEnd(t *testing.T) {
	v := newVM(t, "a", "b")
	var first *InFile
	ran := 0
	v.config.Noted = func() {
		if first == nil {
			if first = v.InFile(); len(v.serving()) != 2 {
				t.Error("a worker has left its channel before that was noted")
			}
		}
		if v.InFile() == nil {
			ran++
			if v.suspension.State() != suspend.Resuming {
				t.Errorf("noted when the VM is %s", v.suspension.State())
			}
		}
	}
	f := v.mustSave()
	if first == nil || len(first.Programs) != 2 {
		t.Fatalf("noted: %+v", first)
	}
	if _, err := v.Load(bytes.NewReader(f), silent); err != nil || ran != 1 {
		t.Fatalf("%v, noted %d times", err, ran)
	}
}

// TestStrangeInFiles are refused.
func TestStrangeInFiles(t *testing.T) {
	for _, text := range []string{
		"", "{", "{}", `{"Programs":[{"Channel":3}]}`, `{"Programs":[{"Channel":-1}]}`,
		`{"Programs":[{"Channel":1},{"Channel":1,"Number":1}]}`,
		`{"Programs":[{"Channel":1},{"Channel":2}]}`, `{"Programs":[{"Number":-1}]}`,
		`{"Programs":[{"Held":[32768]}]}`, `{"Programs":[{"Held":[-1]}]}`,
		`{"Programs":[{"Held":[1,1]}]}`,
		`{"Programs":[{"Name":"` + string(bytes.Repeat([]byte("x"), maxName+1)) + `"}]}`,
	} {
		if f, err := DecodeInFile([]byte(text), 3); !errors.Is(err, ErrInFile) {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
}
