-- Uses FX Lens from a headless Neovim (0.7 or newer) as a person would, and writes what was seen as JSON.
local file, out = vim.env.FXLENS_FILE, vim.env.FXLENS_OUT
local seen = {}

local function finish(problem)
  seen.problem = problem
  local handle = assert(io.open(out, 'w'))
  handle:write(vim.fn.json_encode(seen))
  handle:close()
  vim.cmd('qall!')
end

local function wait(what, probe)
  if not vim.wait(90000, probe, 50) then
    finish('waited in vain for ' .. what)
    error(what)
  end
end

vim.cmd('filetype on')
dofile(vim.env.FXLENS_SETUP)
vim.cmd('edit ' .. vim.fn.fnameescape(vim.fn.fnamemodify(file, ':h') .. '/other.py'))
vim.cmd('edit ' .. vim.fn.fnameescape(file))
vim.cmd('edit!')

wait('a diagnostic', function() return #vim.diagnostic.get(0) > 0 end)
seen.servers = #vim.lsp.get_active_clients()
local client = vim.lsp.get_active_clients()[1].id
seen.diagnostics = vim.tbl_map(function(each)
  return { code = each.code, lnum = each.lnum, col = each.col, end_col = each.end_col, source = each.source }
end, vim.diagnostic.get(0))

local first = vim.diagnostic.get(0)[1]
vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col + 1 })
local function ask(method, params)
  local answer = vim.lsp.buf_request_sync(0, method, params, 120000)
  return answer and answer[client] and answer[client].result
end

wait('hover', function()
  local hover = ask('textDocument/hover', vim.lsp.util.make_position_params())
  seen.hover = hover and hover.contents.value
  return seen.hover
end)

local whole = { start = { line = 0, character = 0 }, ['end'] = { line = vim.api.nvim_buf_line_count(0), character = 0 } }
local document = vim.lsp.util.make_text_document_params()
seen.hints = vim.tbl_map(function(each) return each.label end, ask('textDocument/inlayHint', { textDocument = document, range = whole }))
local lenses = ask('textDocument/codeLens', { textDocument = document })
seen.lenses = vim.tbl_map(function(each) return each.command.title end, lenses)
for _, each in ipairs(lenses) do
  if each.command.title == 'Code' then
    local view = ask('workspace/executeCommand', { command = each.command.command, arguments = each.command.arguments })
    seen.view = table.concat(vim.fn.readfile(vim.uri_to_fname(view.uri)), '\n')
  end
end

local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics(0, first.lnum) }
local actions = ask('textDocument/codeAction', params)
seen.actions = vim.tbl_map(function(each) return each.title end, actions)
if #actions == 0 then finish('no code action') error('no code action') end
vim.lsp.util.apply_workspace_edit(actions[1].edit, 'utf-16')
wait('the end of the problem', function() return #vim.diagnostic.get(0) == 0 end)
seen.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
finish()
