package farsync
