package main

import _ "github.com/farsync/farsync/internal/suite/bubbles" // for this repository's own check: not to copy
