// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }
