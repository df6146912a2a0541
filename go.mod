module github.com/provetrace/provetrace

go 1.26
